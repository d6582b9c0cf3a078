/** Networks that clients' addresses stand for. */
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { networkOf } from '../../src/net/ip-address.ts';

const test = suite('IP address');

test('an IPv4 address is a network of its own, also mapped into IPv6', () => {
  assert.is(networkOf('192.0.2.7'), '192.0.2.7');
  assert.is(networkOf('::ffff:192.0.2.7'), '192.0.2.7');
});

test('an IPv6 address stands for its first 64 bits, however it is written', () => {
  assert.is(networkOf('2001:db8:0:1::5'), '2001:db8:0:1::/64');
  assert.is(networkOf('2001:db8:0:1:ffff:ffff:ffff:ffff'), networkOf('2001:db8::1:0:0:0:1'));
  assert.not.equal(networkOf('2001:db8:0:2::5'), networkOf('2001:db8:0:1::5'));
  assert.is(networkOf('::1'), '0:0:0:0::/64');
  assert.is(networkOf('fe80::1%eth0'), 'fe80:0:0:0::/64');
});

test.run();
