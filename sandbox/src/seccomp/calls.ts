/**
 * System calls that a sealed command may not make. In: the architecture. Out: the filter. Each group has its reason:
 * calls that lead out of the command's namespaces, calls that allocate memory without a limit, and parts of the kernel
 * that builds do not need and that had vulnerabilities. All other calls are allowed, because a build may run any
 * program.
 */
import {
  ALLOW,
  and,
  type Call,
  fail,
  filterOf,
  type Instruction,
  loadArgument,
  type Machine,
  type Rule,
  skipIf,
  skipUnless,
} from './filter.js';

const EPERM = 1;
const ENOSYS = 38;
const EAFNOSUPPORT = 97;
const EPROTONOSUPPORT = 93;

interface Group {
  why: string;
  /** Error number. ENOSYS if programs fall back to another call, as on an older kernel. */
  error: number;
  calls: Readonly<Record<string, Call>>;
}

export const DENIED: readonly Group[] = [
  {
    why: 'Mounts and new roots change the visible files.',
    error: EPERM,
    calls: {
      mount: [165, 40],
      umount2: [166, 39],
      pivot_root: [155, 41],
      chroot: [161, 51],
      open_tree: [428, 428],
      move_mount: [429, 429],
      fsopen: [430, 430],
      fsconfig: [431, 431],
      fsmount: [432, 432],
      fspick: [433, 433],
      mount_setattr: [442, 442],
      open_tree_attr: [467, 467],
      name_to_handle_at: [303, 264],
      open_by_handle_at: [304, 265],
    },
  },
  {
    why: 'In a new user namespace a process has every capability, and with them most of the kernel to attack.',
    error: EPERM,
    calls: { unshare: [272, 97], setns: [308, 268] },
  },
  {
    why: 'Its flags are in memory, where no filter reads them. The C library falls back on clone.',
    error: ENOSYS,
    calls: { clone3: [435, 435] },
  },
  {
    why: 'Keyrings are in no namespace: processes of one user id share them.',
    error: ENOSYS,
    calls: { add_key: [248, 217], request_key: [249, 218], keyctl: [250, 219] },
  },
  {
    why: 'One process may not read or steer another, not even of the same build.',
    error: EPERM,
    calls: {
      ptrace: [101, 117],
      process_vm_readv: [310, 270],
      process_vm_writev: [311, 271],
      kcmp: [312, 272],
      pidfd_getfd: [438, 438],
      process_madvise: [440, 440],
    },
  },
  {
    why: 'Programs within the kernel, its counters and its page faults: most of its exploits begin there.',
    error: EPERM,
    calls: { bpf: [321, 280], perf_event_open: [298, 241], userfaultfd: [323, 282], fanotify_init: [300, 262] },
  },
  {
    why: 'io_uring makes calls that no filter sees. Node falls back on epoll.',
    error: ENOSYS,
    calls: { io_uring_setup: [425, 425], io_uring_enter: [426, 426], io_uring_register: [427, 427] },
  },
  {
    why: 'Memory that belongs to no process and no sized mount, so that no limit counts it.',
    error: ENOSYS,
    calls: {
      memfd_create: [319, 279],
      memfd_secret: [447, 447],
      shmget: [29, 194],
      msgget: [68, 186],
      semget: [64, 190],
      mq_open: [240, 180],
    },
  },
  {
    why: 'Placement of memory on the machine concerns other tenants.',
    error: ENOSYS,
    calls: { set_mempolicy: [238, 237], mbind: [237, 235], migrate_pages: [256, 238], move_pages: [279, 239] },
  },
  {
    why: 'A command keeps the processors and the priority for reads and writes that it was started with.',
    error: EPERM,
    calls: { sched_setaffinity: [203, 122], ioprio_set: [251, 30] },
  },
  {
    why: 'They change the machine. They need capabilities that the command does not have; this is a second wall.',
    error: EPERM,
    calls: {
      init_module: [175, 105],
      finit_module: [313, 273],
      delete_module: [176, 106],
      kexec_load: [246, 104],
      kexec_file_load: [320, 294],
      reboot: [169, 142],
      swapon: [167, 224],
      swapoff: [168, 225],
      acct: [163, 89],
      quotactl: [179, 60],
      quotactl_fd: [443, 443],
      syslog: [103, 116],
      settimeofday: [164, 170],
      clock_settime: [227, 112],
      clock_adjtime: [305, 266],
      adjtimex: [159, 171],
      sethostname: [170, 161],
      setdomainname: [171, 162],
      lookup_dcookie: [212, 18],
      vhangup: [153, 58],
    },
  },
];

const SOCKET = [41, 198] as const;
const SOCKETPAIR = [53, 199] as const;
const CLONE = [56, 220] as const;
const MMAP = [9, 222] as const;
const SETSOCKOPT = [54, 208] as const;
const [SOL_SOCKET, SO_SNDBUF, SO_RCVBUF] = [1, 7, 8] as const;
const [AF_UNIX, AF_INET, AF_INET6, AF_NETLINK] = [1, 2, 10, 16] as const;
const [IPPROTO_TCP, IPPROTO_UDP, NETLINK_ROUTE] = [6, 17, 0] as const;
/** Flags of clone that make a namespace: CLONE_NEWNS, -CGROUP, -UTS, -IPC, -USER, -PID and -NET. */
const NEW_NAMESPACES = 0x7e02_0000;
const SHARED_ANONYMOUS = 0x21;

/** Allows only these values. */
const onlyOf = (values: readonly number[], error: number): Instruction[] => [
  ...values.flatMap((value) => [skipUnless(value, 1), ALLOW]),
  fail(error),
];
/**
 * Filter that allows TCP and UDP, but no protocol for which the kernel would load a module: SCTP, DCCP, L2TP and
 * others.
 */
const internet = [loadArgument(2), ...onlyOf([0, IPPROTO_TCP, IPPROTO_UDP], EPROTONOSUPPORT)];
/**
 * Filter that allows the netlink family that `os.networkInterfaces()` needs, and denies packet filters, audit and
 * crypto.
 */
const netlink = [loadArgument(2), ...onlyOf([NETLINK_ROUTE], EPROTONOSUPPORT)];

const RULES: readonly Rule[] = [
  {
    // Denies AF_ALG (CVE-2026-31431), vsock, packet sockets and some forty others.
    call: SOCKET,
    instructions: [
      loadArgument(0),
      skipUnless(AF_UNIX, 1),
      ALLOW,
      skipUnless(AF_NETLINK, netlink.length),
      ...netlink,
      skipIf(AF_INET, 2),
      skipIf(AF_INET6, 1),
      fail(EAFNOSUPPORT),
      ...internet,
    ],
  },
  // Denied, because the kernel creates both sockets before it detects that the family has no pairs.
  { call: SOCKETPAIR, instructions: [loadArgument(0), ...onlyOf([AF_UNIX], EAFNOSUPPORT)] },
  { call: CLONE, instructions: [loadArgument(0), and(NEW_NAMESPACES), ...onlyOf([0], EPERM)] },
  // The call succeeds without effect, because the memory of socket buffers belongs to no process.
  {
    call: SETSOCKOPT,
    instructions: [
      loadArgument(1),
      skipIf(SOL_SOCKET, 1),
      ALLOW,
      loadArgument(2),
      skipIf(SO_SNDBUF, 2),
      skipIf(SO_RCVBUF, 1),
      ALLOW,
      fail(0),
    ],
  },
  // Denied: it outlives the process that filled it, and RLIMIT_DATA does not count it.
  {
    call: MMAP,
    instructions: [loadArgument(3), and(SHARED_ANONYMOUS), skipIf(SHARED_ANONYMOUS, 1), ALLOW, fail(EPERM)],
  },
];

export const sealedFilter = (machine: Machine): Buffer =>
  filterOf(machine, [
    ...RULES,
    ...DENIED.flatMap(({ error, calls }) =>
      Object.values(calls).map((call) => ({ call, instructions: [fail(error)] })),
    ),
  ]);
