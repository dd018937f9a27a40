package lock

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestL06_BootClock runs itself once more where the boot clock is an hour further ahead, as after a sleep.
func TestL06_BootClock(t *testing.T) {
	slept, told := asleep()
	require.True(t, told)
	if before, err := time.ParseDuration(os.Getenv("SLEPT_BEFORE")); err == nil {
		assert.InDelta(t, before+time.Hour, slept, float64(5*time.Millisecond))
		c := systemClock()
		assert.WithinDuration(t, time.Now(), c.Now(), time.Second, "what was before does not count")
		return
	}
	unshare := []string{"unshare", "--user", "--map-root-user", "--time", "--boottime", "3600", "--fork"}
	if out, err := exec.Command(unshare[0], append(unshare[1:], "true")...).CombinedOutput(); err != nil {
		t.Skipf("no time namespace to be had: %v: %s", err, out)
	}
	again := exec.Command(unshare[0], append(unshare[1:], os.Args[0], "-test.run=^TestL06_BootClock$", "-test.count=1")...)
	again.Env = append(os.Environ(), "SLEPT_BEFORE="+slept.String())
	out, err := again.CombinedOutput()
	require.NoError(t, err, "%s", out)
}
