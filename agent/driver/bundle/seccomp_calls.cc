// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/bundle/seccomp_calls.h"

namespace mountd::driver {
namespace {

using Call = std::string_view;

// The kernel checks permission for each file. open_by_handle_at(2) is not
// here, because it opens a file past all directories that lead to the file.
constexpr Call kFiles[] = {"access",
                           "chdir",
                           "chmod",
                           "chown",
                           "close",
                           "close_range",
                           "creat",
                           "faccessat",
                           "faccessat2",
                           "fallocate",
                           "fchdir",
                           "fchmod",
                           "fchmodat",
                           "fchown",
                           "fchownat",
                           "flock",
                           "fstat",
                           "fstatfs",
                           "fsync",
                           "fdatasync",
                           "ftruncate",
                           "futimesat",
                           "getcwd",
                           "getdents",
                           "getdents64",
                           "lchown",
                           "link",
                           "linkat",
                           "lstat",
                           "mkdir",
                           "mkdirat",
                           "mknod",
                           "mknodat",
                           "name_to_handle_at",
                           "newfstatat",
                           "open",
                           "openat",
                           "openat2",
                           "readlink",
                           "readlinkat",
                           "rename",
                           "renameat",
                           "renameat2",
                           "rmdir",
                           "stat",
                           "statfs",
                           "statx",
                           "symlink",
                           "symlinkat",
                           "sync",
                           "sync_file_range",
                           "syncfs",
                           "truncate",
                           "umask",
                           "unlink",
                           "unlinkat",
                           "utime",
                           "utimensat",
                           "utimes",
                           "fgetxattr",
                           "flistxattr",
                           "fremovexattr",
                           "fsetxattr",
                           "getxattr",
                           "lgetxattr",
                           "listxattr",
                           "llistxattr",
                           "lremovexattr",
                           "lsetxattr",
                           "removexattr",
                           "setxattr"};

// These calls work on a file that is already open. vmsplice(2) is not here,
// because it shares the pages of a process with a pipe.
constexpr Call kReadAndWrite[] = {
    "copy_file_range", "dup",          "dup2",      "dup3",     "fadvise64",
    "fcntl",           "ioctl",        "lseek",     "pipe",     "pipe2",
    "pread64",         "preadv",       "preadv2",   "pwrite64", "pwritev",
    "pwritev2",        "read",         "readahead", "readv",    "sendfile",
    "splice",          "tee",          "write",     "writev",   "io_cancel",
    "io_destroy",      "io_getevents", "io_setup",  "io_submit"};

// The memory of the process itself. userfaultfd(2) is not here, because it
// lets a process stop the kernel at a page of its choice.
constexpr Call kMemory[] = {
    "brk",           "get_mempolicy",    "madvise",      "mbind",
    "membarrier",    "memfd_create",     "memfd_secret", "mincore",
    "mlock",         "mlock2",           "mlockall",     "mmap",
    "mprotect",      "mremap",           "msync",        "munlock",
    "munlockall",    "munmap",           "pkey_alloc",   "pkey_free",
    "pkey_mprotect", "remap_file_pages", "set_mempolicy"};

// clone(2) has a rule of its own, because its flags decide.
constexpr Call kProcesses[] = {"arch_prctl",
                               "execve",
                               "execveat",
                               "exit",
                               "exit_group",
                               "fork",
                               "futex",
                               "get_robust_list",
                               "get_thread_area",
                               "getcpu",
                               "getpgid",
                               "getpgrp",
                               "getpid",
                               "getppid",
                               "getpriority",
                               "getrlimit",
                               "getrusage",
                               "getsid",
                               "gettid",
                               "ioprio_get",
                               "ioprio_set",
                               "prctl",
                               "prlimit64",
                               "restart_syscall",
                               "rseq",
                               "sched_get_priority_max",
                               "sched_get_priority_min",
                               "sched_getaffinity",
                               "sched_getattr",
                               "sched_getparam",
                               "sched_getscheduler",
                               "sched_rr_get_interval",
                               "sched_setaffinity",
                               "sched_setattr",
                               "sched_setparam",
                               "sched_setscheduler",
                               "sched_yield",
                               "set_robust_list",
                               "set_thread_area",
                               "set_tid_address",
                               "setpgid",
                               "setpriority",
                               "setrlimit",
                               "setsid",
                               "vfork",
                               "wait4",
                               "waitid",
                               "waitpid"};

// The kernel allows these calls only on a process of the same user in the
// caller's own pid namespace, so a debugger works on the container's processes
// alone.
constexpr Call kOtherProcesses[] = {"pidfd_getfd",
                                    "pidfd_open",
                                    "pidfd_send_signal",
                                    "process_mrelease",
                                    "process_vm_readv",
                                    "process_vm_writev",
                                    "ptrace"};

constexpr Call kSignals[] = {"kill",
                             "pause",
                             "rt_sigaction",
                             "rt_sigpending",
                             "rt_sigprocmask",
                             "rt_sigqueueinfo",
                             "rt_sigreturn",
                             "rt_sigsuspend",
                             "rt_sigtimedwait",
                             "rt_tgsigqueueinfo",
                             "sigaltstack",
                             "signalfd",
                             "signalfd4",
                             "tgkill",
                             "tkill"};

// The calls that set a clock check CAP_SYS_TIME in the kernel, and a user
// namespace does not give it.
constexpr Call kTime[] = {"adjtimex",
                          "alarm",
                          "clock_adjtime",
                          "clock_getres",
                          "clock_gettime",
                          "clock_nanosleep",
                          "getitimer",
                          "gettimeofday",
                          "nanosleep",
                          "setitimer",
                          "time",
                          "timer_create",
                          "timer_delete",
                          "timer_getoverrun",
                          "timer_gettime",
                          "timer_settime",
                          "timerfd_create",
                          "timerfd_gettime",
                          "timerfd_settime",
                          "times"};

// The kernel limits these calls to ids in the map of the container's user
// namespace.
constexpr Call kUsers[] = {
    "capget",    "capset",    "getegid",   "geteuid",   "getgid",   "getgroups",
    "getresgid", "getresuid", "getuid",    "setfsgid",  "setfsuid", "setgid",
    "setgroups", "setregid",  "setresgid", "setresuid", "setreuid", "setuid"};

// socket(2) has a rule of its own, because its family decides.
constexpr Call kSockets[] = {
    "accept",      "accept4",    "bind",    "connect",  "getpeername",
    "getsockname", "getsockopt", "listen",  "recvfrom", "recvmmsg",
    "recvmsg",     "sendmmsg",   "sendmsg", "sendto",   "setsockopt",
    "shutdown",    "socketpair"};

// Objects of the container's own IPC namespace.
constexpr Call kIpc[] = {
    "mq_getsetattr", "mq_notify", "mq_open", "mq_timedreceive", "mq_timedsend",
    "mq_unlink",     "msgctl",    "msgget",  "msgrcv",          "msgsnd",
    "semctl",        "semget",    "semop",   "semtimedop",      "shmat",
    "shmctl",        "shmdt",     "shmget"};

constexpr Call kEvents[] = {
    "epoll_create", "epoll_create1", "epoll_ctl",
    "epoll_pwait",  "epoll_pwait2",  "epoll_wait",
    "eventfd",      "eventfd2",      "inotify_add_watch",
    "inotify_init", "inotify_init1", "inotify_rm_watch",
    "poll",         "ppoll",         "pselect6",
    "select"};

constexpr Call kSystem[] = {"getrandom", "sysinfo", "uname"};

// With these calls a process gives up rights of its own.
constexpr Call kSandboxes[] = {"landlock_add_rule", "landlock_create_ruleset",
                               "landlock_restrict_self", "seccomp"};

// Names of 32-bit calls, which 64-bit machines have for 32-bit programs.
constexpr Call kOf32Bit[] = {"_llseek",
                             "_newselect",
                             "chown32",
                             "clock_adjtime64",
                             "clock_getres_time64",
                             "clock_gettime64",
                             "clock_nanosleep_time64",
                             "fadvise64_64",
                             "fchown32",
                             "fcntl64",
                             "fstat64",
                             "fstatat64",
                             "fstatfs64",
                             "ftruncate64",
                             "futex_time64",
                             "getegid32",
                             "geteuid32",
                             "getgid32",
                             "getgroups32",
                             "getresgid32",
                             "getresuid32",
                             "getuid32",
                             "ipc",
                             "lchown32",
                             "lstat64",
                             "mmap2",
                             "mq_timedreceive_time64",
                             "mq_timedsend_time64",
                             "ppoll_time64",
                             "pselect6_time64",
                             "recv",
                             "recvmmsg_time64",
                             "rt_sigtimedwait_time64",
                             "sched_rr_get_interval_time64",
                             "semtimedop_time64",
                             "send",
                             "sendfile64",
                             "setfsgid32",
                             "setfsuid32",
                             "setgid32",
                             "setgroups32",
                             "setregid32",
                             "setresgid32",
                             "setresuid32",
                             "setreuid32",
                             "setuid32",
                             "signal",
                             "sigprocmask",
                             "sigreturn",
                             "socketcall",
                             "stat64",
                             "statfs64",
                             "timer_gettime64",
                             "timer_settime64",
                             "timerfd_gettime64",
                             "timerfd_settime64",
                             "truncate64",
                             "ugetrlimit",
                             "utimensat_time64"};

// Processors' own calls.
#if defined(__x86_64__)
constexpr Call kOfProcessor[] = {"modify_ldt"};
#elif defined(__aarch64__)
constexpr Call kOfProcessor[] = {"arm_fadvise64_64", "arm_sync_file_range",
                                 "breakpoint",       "cacheflush",
                                 "set_tls",          "sync_file_range2"};
#else
constexpr Call kOfProcessor[] = {"sync_file_range2"};
#endif

// Calls for mounts and namespaces. The kernel would let the container's root
// make mounts and namespaces in the container's own user namespace, so the
// filter must refuse these calls.
constexpr Call kOfAdministrators[] = {
    "bpf",        "fanotify_init", "fanotify_mark", "fsconfig",
    "fsmount",    "fsopen",        "fspick",        "lookup_dcookie",
    "mount",      "mount_setattr", "move_mount",    "open_tree",
    "pivot_root", "quotactl",      "setdomainname", "sethostname",
    "setns",      "umount",        "umount2",       "unshare"};

// Lists of calls that need one capability; kGroups names the capability.
constexpr Call kOpenByHandle[] = {"open_by_handle_at"};
constexpr Call kReboot[] = {"reboot"};
constexpr Call kChroot[] = {"chroot"};
constexpr Call kModules[] = {"delete_module", "finit_module", "init_module"};
constexpr Call kAccounting[] = {"acct"};
constexpr Call kInspect[] = {"kcmp", "process_madvise"};
constexpr Call kPorts[] = {"ioperm", "iopl"};
constexpr Call kSetClock[] = {"clock_settime", "clock_settime64",
                              "settimeofday"};
constexpr Call kHangUp[] = {"vhangup"};
constexpr Call kKernelLog[] = {"syslog"};

constexpr CallGroup kGroups[] = {
    {"", kFiles},
    {"", kReadAndWrite},
    {"", kMemory},
    {"", kProcesses},
    {"", kOtherProcesses},
    {"", kSignals},
    {"", kTime},
    {"", kUsers},
    {"", kSockets},
    {"", kIpc},
    {"", kEvents},
    {"", kSystem},
    {"", kSandboxes},
    {"", kOf32Bit},
    {"", kOfProcessor},
    {"CAP_DAC_READ_SEARCH", kOpenByHandle},
    {"CAP_SYS_ADMIN", kOfAdministrators},
    {"CAP_SYS_BOOT", kReboot},
    {"CAP_SYS_CHROOT", kChroot},
    {"CAP_SYS_MODULE", kModules},
    {"CAP_SYS_PACCT", kAccounting},
    {"CAP_SYS_PTRACE", kInspect},
    {"CAP_SYS_RAWIO", kPorts},
    {"CAP_SYS_TIME", kSetClock},
    {"CAP_SYS_TTY_CONFIG", kHangUp},
    {"CAP_SYSLOG", kKernelLog},
};

// The calls for keys are here because the kernel's keyrings have no namespace.
// The other calls are obsolete, or reach beyond the container with any
// capabilities.
constexpr Call kRefused[] = {
    "add_key",        "io_uring_enter",  "io_uring_register",
    "io_uring_setup", "kexec_file_load", "kexec_load",
    "keyctl",         "migrate_pages",   "move_pages",
    "nfsservctl",     "perf_event_open", "request_key",
    "swapoff",        "swapon",          "sysfs",
    "uselib",         "userfaultfd",     "ustat",
    "vmsplice"};

}  // namespace

std::span<const CallGroup> CallGroups() { return kGroups; }

std::span<const std::string_view> RefusedCalls() { return kRefused; }

}  // namespace mountd::driver
