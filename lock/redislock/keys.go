package redislock

import (
	"encoding/hex"
	"strings"

	"github.com/google/uuid"
)

// keys are what a resource has in the store, and one holder's tombstone. They share a cluster slot: the hash tag of the
// others is the whole lease key, and the lease key has no brace.
type keys struct{ lease, fence, queue, seen, gone, holder string }

var escape = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D")

// keysOf makes all of them, and the text of the holder, in one piece of memory.
func keysOf(resource string, holder uuid.UUID) keys {
	name := escape.Replace(resource)
	ends := [...]string{":fence", ":queue", ":seen", ":gone:"}
	var b strings.Builder
	b.Grow(len(ends)*(len("{lock:}")+len(name)+len(":fence")) + len("lock:") + len(name) + textLength)
	b.WriteString("lock:")
	b.WriteString(name)
	lease := b.Len()
	var at [len(ends)]int
	for i, end := range ends {
		at[i] = b.Len()
		b.WriteString("{lock:")
		b.WriteString(name)
		b.WriteString("}")
		b.WriteString(end)
	}
	text := textOf(holder)
	b.Write(text[:])
	all := b.String()
	return keys{
		lease: all[:lease], fence: all[at[0]:at[1]], queue: all[at[1]:at[2]], seen: all[at[2]:at[3]],
		gone: all[at[3]:], holder: all[len(all)-textLength:],
	}
}

const textLength = 36

// textOf is holder.String().
func textOf(holder uuid.UUID) (text [textLength]byte) {
	hex.Encode(text[:8], holder[:4])
	hex.Encode(text[9:13], holder[4:6])
	hex.Encode(text[14:18], holder[6:8])
	hex.Encode(text[19:23], holder[8:10])
	hex.Encode(text[24:], holder[10:])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return text
}
