"""Sets the time slice of a thread, on Linux 6.12 and later.

If several threads may run, the kernel chooses the thread whose slice would end first. A thread
with a short slice therefore runs soon after it has woken up, and a thread with a long slice waits.
Slices do not change the shares of time that threads get.

Source: the manual page sched_setattr(2), and kernel/sched/fair.c of Linux.
"""

import ctypes
import os
import platform
import struct

WORKER_SLICE_SECONDS = 0.1
"""Slice of a device worker on a CPU: the longest slice that the kernel allows.

The kernel's default is 1 to 3 ms. With the long slice, the HTTP process runs soon after a worker
has sent results, and sends new sentences to this worker.
"""

SYSTEM_CALLS = {"x86_64": 314, "aarch64": 274}
"""Number of the system call sched_setattr, for each `platform.machine()`."""

ATTRIBUTES = struct.Struct("=IIQiIQQQII")
"""The structure sched_attr: size, policy, flags, niceness, priority, slice in ns, and four more."""

KEEP_POLICY = 0x08
"""The flag SCHED_FLAG_KEEP_POLICY."""


def set_time_slice(seconds: float) -> bool:
    """Sets the slice of the calling thread, and of threads and processes that it starts later.

    Returns whether the kernel accepted the slice. A kernel before 6.12 accepts the slice, but does
    not use it. A sandbox may refuse the call. The server then only loses some speed.
    """
    number = SYSTEM_CALLS.get(platform.machine())
    if number is None:
        return False
    niceness = os.getpriority(os.PRIO_PROCESS, 0)
    nanoseconds = round(seconds * 1e9)
    attributes = ATTRIBUTES.pack(
        ATTRIBUTES.size, 0, KEEP_POLICY, niceness, 0, nanoseconds, 0, 0, 0, 0
    )
    failed: int = ctypes.CDLL(None).syscall(number, 0, attributes, 0)
    return failed == 0
