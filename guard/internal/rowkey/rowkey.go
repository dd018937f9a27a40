// Package rowkey gives the key of a row its one text, as it stands in the names of resources.
package rowkey

import (
	"fmt"
	"reflect"
	"strconv"

	"github.com/ringfence/ringfence/fence"
)

// Text returns the text of a string, of an integer, or of an array, struct or slice that has a String
// method, as uuid.UUID. The value that the type is made of counts, so that a number with a name stays a
// number. The error wraps [fence.ErrInvalid].
func Text(key any) (string, error) {
	v := reflect.ValueOf(key)
	switch {
	case !v.IsValid():
	case v.Kind() == reflect.String:
		return v.String(), nil
	case v.CanInt():
		return strconv.FormatInt(v.Int(), 10), nil
	case v.CanUint():
		return strconv.FormatUint(v.Uint(), 10), nil
	case v.Kind() == reflect.Array || v.Kind() == reflect.Struct || v.Kind() == reflect.Slice:
		if s, ok := key.(fmt.Stringer); ok {
			return s.String(), nil
		}
	}
	return "", fmt.Errorf("%w: key of type %T: want a string, an integer, or a value with a String method", fence.ErrInvalid, key)
}
