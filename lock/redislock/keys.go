package redislock

import (
	"strings"

	"github.com/google/uuid"
)

// keys are a resource's keys. They share a cluster slot: the hash tag of the others is the whole lease
// key, and the lease key has no brace.
type keys struct{ lease, fence string }

var escape = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D")

func keysOf(resource string) keys {
	lease := "lock:" + escape.Replace(resource)
	return keys{lease: lease, fence: "{" + lease + "}:fence"}
}

func (k keys) gone(holder uuid.UUID) string { return "{" + k.lease + "}:gone:" + holder.String() }
