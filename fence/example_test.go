package fence_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/google/uuid"

	"github.com/ringfence/ringfence/fence"
)

// A claim travels in the context; what comes back is told apart by its verdict.
func Example() {
	ctx := fence.NewContext(context.Background(), fence.Claim{Resource: "auction/7", Token: 33})

	claim, _ := fence.ForResource(ctx, "auction/7")
	err := error(&fence.RejectedError{Claim: claim, Mark: 34, Verdict: fence.ErrStale}) // as a guard would say

	var rejected *fence.RejectedError
	if errors.As(err, &rejected) && errors.Is(err, fence.ErrStale) {
		fmt.Println("overtaken by", rejected.Mark)
	}
	fmt.Println(err)
	// Output:
	// overtaken by 34
	// fence: stale: auction/7 token 33 holder none refused, the mark is 34
}

// A seat is held for ten minutes, from one request to the next, which another server may get. The
// claim is kept in a cookie meanwhile.
func ExampleKeyring() {
	secret := make([]byte, 32) // in production from a secret store, the same for all servers
	_, _ = rand.Read(secret)
	keys, err := fence.NewKeyring(fence.Key{ID: "2026-12", Secret: secret}) // older keys come behind it
	if err != nil {
		log.Fatal(err)
	}

	choose := func(w http.ResponseWriter, _ *http.Request) {
		claim := fence.Claim{Resource: "seat/A12", Token: 34, Holder: uuid.New()} // from lease.Detach()
		http.SetCookie(w, &http.Cookie{
			Name:     "seat",
			Value:    keys.Encode(claim, time.Now().Add(10*time.Minute)),
			MaxAge:   600,
			HttpOnly: true, // who has the text has the seat
			Secure:   true,
			SameSite: http.SameSiteLaxMode,
		})
	}
	pay := func(w http.ResponseWriter, r *http.Request) {
		cookie, err := r.Cookie("seat")
		if err != nil {
			http.Error(w, "choose a seat first", http.StatusBadRequest)
			return
		}
		claim, err := keys.Decode(cookie.Value)
		if errors.Is(err, fence.ErrForged) { // expired, edited, or of an unknown key
			http.Error(w, "choose a seat again", http.StatusForbidden)
			return
		}
		fmt.Fprintf(w, "%s under token %s", claim.Resource, claim.Token) // goes on with locker.Resume(ctx, claim)
	}

	first := httptest.NewRecorder()
	choose(first, httptest.NewRequest(http.MethodPost, "/choose", nil))
	cookie := first.Result().Cookies()[0]
	for _, value := range []string{cookie.Value, cookie.Value + "A"} {
		next := httptest.NewRequest(http.MethodPost, "/pay", nil)
		next.AddCookie(&http.Cookie{Name: "seat", Value: value})
		answer := httptest.NewRecorder()
		pay(answer, next)
		fmt.Println(answer.Code, answer.Body)
	}
	// Output:
	// 200 seat/A12 under token 34
	// 403 choose a seat again
}
