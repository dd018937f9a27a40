//go:build !linux

package lock

import "time"

func asleep() (time.Duration, bool) { return 0, false }
