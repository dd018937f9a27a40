package lock

import "log/slog"

// mostWarnings is how many may wait for their handler; what is more is dropped.
const mostWarnings = 64

// warn logs on a goroutine of its own: a handler is the user's code, and may block, panic or use the
// lock. log may be nil.
func (l *Locker) warn(log *slog.Logger, message string, args ...any) {
	if log == nil {
		return
	}
	select {
	case l.warnings <- struct{}{}:
	default:
		return
	}
	l.tasks.begin()
	go func() {
		defer l.tasks.end()
		defer func() { <-l.warnings }()
		defer func() { _ = recover() }()
		log.Warn(message, args...)
	}()
}
