package redislock

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
)

// hashed is the part of a key that Redis Cluster hashes: see "Hash tags" in the Redis Cluster
// specification.
func hashed(key string) string {
	_, rest, found := strings.Cut(key, "{")
	if tag, _, closed := strings.Cut(rest, "}"); found && closed && tag != "" {
		return tag
	}
	return key
}

func TestC10_L16_KeysOfANameShareASlotAndNoOthers(t *testing.T) {
	t.Parallel()
	names := []string{
		"ticket-123", "}x", "{}", "{", "}", "a{b}c", "A}B{C", "%7B", "{a}", "%", "%25", "%257B", " ", "ü", "a:fence", "{lock:a}:fence", "a}:fence",
		"lock:a", "a:gone:x", "a b", "{lock:a}:gone:" + uuid.Nil.String(),
	}
	holder := uuid.New()
	owner := map[string]string{}
	for _, name := range names {
		k := keysOf(name, holder)
		for _, key := range []string{k.lease, k.fence, k.queue, k.seen, k.gone} {
			assert.Equal(t, k.lease, hashed(key), "%q has the key %q", name, key)
			other, taken := owner[key]
			assert.False(t, taken, "%q and %q share %q", name, other, key)
			owner[key] = name
		}
	}
	assert.Equal(t, keys{
		"lock:ticket-123", "{lock:ticket-123}:fence", "{lock:ticket-123}:queue", "{lock:ticket-123}:seen",
		"{lock:ticket-123}:gone:" + holder.String(), holder.String(),
	}, keysOf("ticket-123", holder))
}
