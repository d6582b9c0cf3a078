/** A GPU driver inside the engine sandbox: the model answers, and compiled shaders are cached on disk. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { encodeFrame, FrameDecoder, FROM_ENGINE } from '../../src/engine/frames.ts';
import type { FromEngine } from '../../src/engine/messages.ts';
import { spawnEngine } from '../../src/engine/spawn.ts';
import { COMPILED_MS, SOFTWARE_GPU } from '../support/gpu-backends.ts';
import { makeHome } from '../support/home.ts';
import { modelPath } from '../support/native-engine.ts';
import { unless } from '../support/skip.ts';
import { waitFor } from '../support/wait.ts';

unless(SOFTWARE_GPU === null ? 'no software driver is installed' : undefined, test)(
  'a model on a GPU answers in the sandbox, and its compiled shaders are kept',
  async () => {
    const { GGML_BACKEND_PATH: gpuModule, ...env } = SOFTWARE_GPU ?? {};
    const home = await makeHome();
    Object.assign(process.env, env);
    const { pid, pipe, stdout, stderr, ended, kill } = await spawnEngine({ gpuModule });
    try {
      const frames = new FrameDecoder<FromEngine>(FROM_ENGINE);
      const received: FromEngine[] = [];
      stdout.resume();
      stderr.pipe(process.stderr);
      pipe.on('error', () => undefined);
      pipe.on('data', (chunk: Buffer) => received.push(...frames.decode(chunk)));
      const options = { context_length: 512, max_sequences: 1, threads: 1, gpu_layers: 99 };
      const prefixes = {
        prefix_folder: join(home.dir, 'cache', 'prefixes', 'aa'),
        prefix_model: 'aa',
        prefix_bytes: 2 ** 24,
      };
      const shaderFolder = join(home.dir, 'cache', 'shaders', 'aa');
      pipe.write(
        encodeFrame({
          ...{ type: 'load', model: 'tiny', path: modelPath('tiny-llama'), parentPid: process.pid },
          options: { ...options, ...prefixes },
          shaderFolder,
        }),
      );
      // A load ends with a test token, computed on the device.
      const loaded = await waitFor(
        'the load',
        () => received.find(({ type }) => type === 'loaded' || type === 'failed'),
        { timeoutMs: COMPILED_MS },
      );
      assert.match(loaded.type === 'loaded' ? loaded.info.device : JSON.stringify(loaded), /Vulkan/);
      // The driver compiles for the test token, mostly for some heartbeats. It is no request.
      const beats = received.slice(0, received.indexOf(loaded)).filter((message) => message.type === 'stats');
      assert.ok(beats.length > 0);
      assert.ok(beats.every(({ stats }) => stats === null));
      for (const thread of readdirSync(`/proc/${String(pid)}/task`))
        assert.match(readFileSync(`/proc/${String(pid)}/task/${thread}/status`, 'utf8'), /^Seccomp:\t2$/m);
      const shaders = readdirSync(shaderFolder, { recursive: true });
      assert.ok(shaders.length > 1, 'the driver has kept some');
    } finally {
      kill();
      await ended;
      for (const name of Object.keys(env)) Reflect.deleteProperty(process.env, name);
      await home.remove();
    }
  },
);

test.run();
