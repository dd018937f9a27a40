package lock

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock/driver"
)

// yes is a driver that renews everything and counts when.
type yes struct {
	noDriver
	answers []error
	mu      sync.Mutex
	renewed map[int64]int // by the millisecond
	batches int
}

func (y *yes) Renew(_ context.Context, rs []driver.Renewal) []error {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.renewed != nil {
		y.renewed[time.Now().UnixMilli()] += len(rs)
	}
	y.batches++
	return y.answers[:len(rs)]
}

// many puts n leases under watch that were all granted now.
func many(tb testing.TB, l *Locker, n int) []*Lease {
	tb.Helper()
	leases := make([]*Lease, n)
	for i := range leases {
		claim := fence.Claim{Resource: strconv.Itoa(i), Token: 1, Holder: uuid.New()}
		var err error
		leases[i], err = l.lease(tb.Context(), claim, l.defaults, l.clock.Now(), l.defaults.ttl, false)
		require.NoError(tb, err)
	}
	return leases
}

// TestL13_RenewalsAreSpreadAndBatched has 10,000 leases begin in one instant, and looks at a minute of them.
func TestL13_RenewalsAreSpreadAndBatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &yes{answers: make([]error, renewAtOnce), renewed: map[int64]int{}}
		l, err := New(d)
		require.NoError(t, err)
		leases := many(t, l, 10_000)
		time.Sleep(time.Minute)
		for _, le := range leases {
			require.NoError(t, le.Err())
			_, _ = le.finish(ErrReleased)
		}
		require.NoError(t, l.Close(t.Context()))
		total, most := 0, 0
		for at := range d.renewed {
			within := 0
			for ms := range int64(100) {
				within += d.renewed[at+ms]
			}
			most = max(most, within)
		}
		for _, n := range d.renewed {
			total += n
		}
		assert.InDelta(t, 60_000, total, 7_000, "one renewal of each in ten seconds")
		assert.LessOrEqual(t, most, 10_000/4, "renewals in 100 ms")
		assert.LessOrEqual(t, d.batches, 1000, "calls of the driver")
	})
}

// TestL13_RenewalAllocatesNothingPerLease compares rounds of renewals of few leases and of many.
func TestL13_RenewalAllocatesNothingPerLease(t *testing.T) {
	round := func(n int) float64 {
		d := &yes{answers: make([]error, renewAtOnce)}
		l, err := New(d)
		require.NoError(t, err)
		leases := many(t, l, n)
		renewAll := func() {
			l.mu.Lock()
			for _, le := range leases {
				le.renewAt = l.clock.Now()
			}
			l.mu.Unlock()
			l.watch()
		}
		allocs := testing.AllocsPerRun(50, renewAll)
		assert.GreaterOrEqual(t, d.batches, 50)
		for _, le := range leases {
			_, _ = le.finish(ErrReleased)
		}
		require.NoError(t, l.Close(t.Context()))
		return allocs
	}
	few, lots := round(1), round(renewAtOnce)
	assert.LessOrEqual(t, lots, few+20, "per batch, not per lease: %v for 1, %v for %d", few, lots, renewAtOnce)
}
