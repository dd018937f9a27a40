package rowkey

import (
	"math"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
)

type named string

func TestText(t *testing.T) {
	id := uuid.New()
	for want, key := range map[string]any{
		"7": 7, "-8": int8(-8), "18446744073709551615": uint64(math.MaxUint64), "a b": "a b", "n": named("n"),
		"1000": time.Microsecond, id.String(): id, "": "",
	} {
		got, err := Text(key)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	for _, key := range []any{nil, 1.5, true, []byte("7"), new(int), struct{}{}, &id} {
		_, err := Text(key)
		require.ErrorIs(t, err, fence.ErrInvalid)
		assert.ErrorContains(t, err, "want a string, an integer")
	}
}
