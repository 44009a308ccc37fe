import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { mountsOf } from './sandbox.js';

const MOUNTS = `21 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
22 21 0:20 / /dev rw,nosuid shared:2 - devtmpfs udev rw
23 21 0:21 / /proc rw,nosuid,nodev,noexec,relatime shared:3 - proc proc rw
24 23 0:22 / /proc/sys ro,nosuid,nodev shared:3 - proc proc rw
25 21 0:23 / /etc rw,noexec shared:4 - tmpfs none rw
26 21 0:24 / /etc rw,nodev shared:4 - tmpfs none rw
`;
const flagsOf = (place: string) => mountsOf([place], [], MOUNTS).mounts[0]?.split(' ')[3];

test('a mount of the sandbox repeats flags that the kernel locks', () => {
  assert.is(flagsOf('/proc'), 'rbind,nosuid,ro,nodev,noexec');
  assert.is(flagsOf('/proc/self'), 'rbind,nosuid,ro,nodev,noexec');
  assert.is(flagsOf('/proc/sys'), 'rbind,nosuid,ro,nodev');
  assert.is(flagsOf('/dev/null'), 'rbind,nosuid,ro');
  assert.is(flagsOf('/usr'), 'rbind,nosuid,ro');
});

test('the later of two mounts at one place decides the flags', () => {
  assert.is(flagsOf('/etc'), 'rbind,nosuid,ro,nodev');
});

test('a writable mount repeats the flags too', () => {
  assert.is(mountsOf([], ['/proc'], MOUNTS).mounts[0]?.split(' ')[3], 'rbind,nosuid,nodev,noexec');
});

test.run();
