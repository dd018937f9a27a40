package lock

import (
	"time"

	"golang.org/x/sys/unix"
)

// asleep is by how much CLOCK_BOOTTIME, which counts the time that the machine sleeps, is ahead of CLOCK_MONOTONIC,
// which doesn't: see clock_gettime(2). Both have one rate. They are read one after the other; if that took too
// long, once more.
func asleep() (time.Duration, bool) {
	const skew, reads = 100 * time.Microsecond, 5
	best, slept := time.Duration(-1), time.Duration(0)
	for range reads {
		var first, boot, last unix.Timespec
		if unix.ClockGettime(unix.CLOCK_MONOTONIC, &first) != nil ||
			unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil ||
			unix.ClockGettime(unix.CLOCK_MONOTONIC, &last) != nil {
			return 0, false
		}
		took := time.Duration(last.Nano() - first.Nano())
		if best < 0 || took < best {
			best, slept = took, time.Duration(boot.Nano()-first.Nano())
		}
		if best < skew {
			break
		}
	}
	return slept.Truncate(time.Millisecond), true
}
