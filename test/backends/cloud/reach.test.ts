import type { lookup as dnsLookup } from 'node:dns';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { checkHost, guardedLookup } from '../../../src/backends/cloud/reach.ts';
import { kindOf, kindOfHost, type AddressKind } from '../../../src/net/reach.ts';
import { rejection } from '../../support/errors.ts';

const test = suite('reach');

const ADDRESSES: Readonly<Record<AddressKind, readonly string[]>> = {
  public: ['1.1.1.1', '8.8.8.8', '172.32.0.1', '100.128.0.1', '192.169.0.1', '2606:4700:4700::1111', '2a00::1'],
  loopback: ['127.0.0.1', '127.255.255.254', '::1'],
  private: [
    '10.0.0.1',
    '172.16.0.1',
    '172.31.255.255',
    '192.168.1.1',
    '100.64.0.1',
    '198.18.0.1',
    'fd12::1',
    'fc00::1',
  ],
  forbidden: [
    '0.0.0.0',
    '0.1.2.3',
    '169.254.169.254',
    '169.254.0.1',
    '168.63.129.16',
    '100.100.100.200',
    '192.0.0.192',
    '224.0.0.1',
    '239.255.255.255',
    '255.255.255.255',
    '::',
    '::7f00:2',
    'fe80::1',
    'fe80::1%eth0',
    'ff02::1',
    'fd00:ec2::254',
    'fd20:ce::254',
  ],
};

test('each address has one kind', () => {
  for (const [kind, addresses] of Object.entries(ADDRESSES)) {
    for (const address of addresses) assert.is(kindOf(address), kind, address);
  }
  for (const nonsense of ['', 'localhost', '127.1', '1.2.3', '::g']) assert.is(kindOf(nonsense), 'forbidden', nonsense);
});

/** All notations of one IPv4 address in a URL. */
function notations(address: string): string[] {
  const bytes = address.split('.').map(Number) as [number, number, number, number];
  const [a, b, c, d] = bytes;
  const whole = ((a << 24) | (b << 16) | (c << 8) | d) >>> 0;
  const hex = (value: number): string => `0x${value.toString(16)}`;
  const octal = (value: number): string => `0${value.toString(8)}`;
  return [
    address,
    `${address}.`,
    String(whole),
    hex(whole),
    octal(whole),
    bytes.map(hex).join('.'),
    bytes.map(octal).join('.'),
    `${hex(a)}.${octal(b)}.${String(c)}.${hex(d).toUpperCase()}`,
    `${String(a)}.${String(((b << 16) | (c << 8) | d) >>> 0)}`,
    `${String(a)}.${String(b)}.${String((c << 8) | d)}`,
    `${octal(a)}.${hex(((b << 16) | (c << 8) | d) >>> 0)}`,
    address.replace(/\d/g, (digit) => String.fromCharCode(0xff10 + Number(digit))),
    address.replaceAll('.', '。'),
    address.replace(/\d/g, (digit) => `%3${digit}`),
  ];
}

/** All IPv6 addresses that embed an IPv4 address. */
function carriers(address: string): string[] {
  const [a = 0, b = 0, c = 0, d = 0] = address.split('.').map(Number);
  const high = ((a << 8) | b).toString(16);
  const low = ((c << 8) | d).toString(16);
  return [
    `[::ffff:${address}]`,
    `[::ffff:${high}:${low}]`,
    `[::FFFF:${high.padStart(4, '0')}:${low.padStart(4, '0')}]`,
    `[0:0:0:0:0:ffff:${high}:${low}]`,
    `[64:ff9b::${address}]`,
    `[64:ff9b::${high}:${low}]`,
    `[2002:${high}:${low}::]`,
    `[2002:${high}:${low}:1:2:3:4:5]`,
  ];
}

test('an address has the same kind in every notation, also embedded in IPv6', () => {
  const ipv4 = Object.entries(ADDRESSES).flatMap(([kind, addresses]) =>
    addresses.filter((address) => /^[\d.]+$/.test(address)).map((address) => [kind, address] as const),
  );
  // Random addresses as well: all notations must agree.
  let seed = 7;
  const random = (): number => (seed = (seed * 1_103_515_245 + 12_345) & 0x7fffffff) >> 8;
  for (let n = 0; n < 300; n++) {
    const address = Array.from({ length: 4 }, () => random() % 256).join('.');
    ipv4.push([kindOf(address), address]);
  }
  for (const [kind, address] of ipv4) {
    for (const host of [...notations(address), ...carriers(address)]) {
      const { hostname } = new URL(`http://${host}/`);
      assert.is(kindOfHost(hostname), kind, `${host} (${hostname})`);
    }
  }
});

test('names of this machine and of metadata services are classified without DNS', () => {
  for (const name of ['localhost', 'LOCALHOST', 'localhost.', 'a.localhost']) assert.is(kindOfHost(name), 'loopback');
  for (const name of ['metadata', 'metadata.google.internal', 'METADATA.google.internal.', 'instance-data']) {
    assert.is(kindOfHost(name), 'forbidden', name);
  }
  for (const name of ['example.com', 'localhost.example.com', 'mylocalhost']) assert.is(kindOfHost(name), null, name);
});

test('a host outside the allowed reach is rejected by name, without retry', async () => {
  const error = await rejection(() => checkHost('[::ffff:a9fe:a9fe]', new Set(['public'])), 'PROVIDER_FAILED', /a9fe/);
  assert.is(error.retryable, false);
  assert.ok(error.hint);
  checkHost('127.0.0.1', new Set(['loopback']));
  checkHost('example.com', new Set(['public']));
});

/** Result of the lookup that a connection uses. `answers` are the successive DNS answers, which may differ. */
function resolve(reach: readonly AddressKind[], all: boolean, ...answers: (readonly string[])[]): Promise<unknown> {
  const lookup = ((_name: string, _options: unknown, done: (error: null, addresses: object[]) => void) => {
    const addresses = answers.shift() ?? [];
    done(
      null,
      addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })),
    );
  }) as unknown as typeof dnsLookup;
  return new Promise((settle, reject) => {
    guardedLookup(new Set(reach), lookup)('provider.example', { all }, (error, address, family) => {
      if (error === null) settle(all ? address : [address, family]);
      else reject(error);
    });
  });
}

test('a connection uses exactly the addresses that were checked; the name is resolved once', async () => {
  const addresses = [
    { address: '1.1.1.1', family: 4 },
    { address: '2606:4700::1', family: 6 },
  ];
  assert.equal(await resolve(['public'], true, ['1.1.1.1', '2606:4700::1'], ['127.0.0.1']), addresses);
  assert.equal(await resolve(['public'], false, ['1.1.1.1'], ['127.0.0.1']), ['1.1.1.1', 4]);
});

test('a name with any address outside the allowed reach is rejected', async () => {
  for (const address of ['127.0.0.1', '10.0.0.1', '169.254.169.254', '::1', '::ffff:127.0.0.1', 'fe80::1%eth0']) {
    await rejection(() => resolve(['public'], true, [address]), 'PROVIDER_FAILED', /provider\.example leads to/);
    await rejection(() => resolve(['public'], true, ['1.1.1.1', address]), 'PROVIDER_FAILED');
  }
  await rejection(() => resolve(['loopback', 'private', 'public'], true, ['169.254.169.254']), 'PROVIDER_FAILED');
  await rejection(
    () => resolve(['loopback'], true, ['192.168.1.1']),
    'PROVIDER_FAILED',
    /sends no key over plain http/,
  );
  await rejection(() => resolve(['loopback', 'private'], true, ['8.8.8.8']), 'PROVIDER_FAILED', /plain http/);
  assert.ok(await resolve(['loopback', 'private'], true, ['192.168.1.1']));
});

test.run();
