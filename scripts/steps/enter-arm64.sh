#!/bin/sh
# Runs "$@", a program for Linux arm64, with everything that it starts. Called in new user, mount and process
# namespaces (unshare --user --map-root-user --mount --pid --fork --mount-proc), with which all of this ends.
#
#   QEMU      the interpreter, a static program
#   SYSROOT   the folder with lib/ld-linux-aarch64.so.1
#   SCRATCH   an empty folder
set -eu
mount -t tmpfs none "$SCRATCH"
mkdir "$SCRATCH/upper" "$SCRATCH/work"
# Debian's qemu looks for libraries here first. A variable would not reach the engine, whose environment is cleaned.
mount -t overlay overlay -o "lowerdir=/etc,upperdir=$SCRATCH/upper,workdir=$SCRATCH/work" /etc
mkdir -p /etc/qemu-binfmt
ln -sfn "$SYSROOT" /etc/qemu-binfmt/aarch64
# Each user namespace has its own table of interpreters.
mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc
magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
printf '%s' ":qemu-aarch64:M::$magic:$mask:$QEMU:F" >/proc/sys/fs/binfmt_misc/register
"$@"
