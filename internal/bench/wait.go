package main

import (
	"context"
	"errors"
	"time"
)

// pause returns after d, or with ctx's error when that ends before.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// joinClose is err and what the closing returned.
func joinClose(err error, closing func() error) error { return errors.Join(err, closing()) }
