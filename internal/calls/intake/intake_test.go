package intake_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/headway-go/headway/internal/calls/intake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRead(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 100, intake.Free - 1, intake.Free, intake.Free + 1, 3 * intake.Free} {
		for _, most := range []int64{100, intake.Free, 3 * intake.Free} {
			budget := intake.New(10 * intake.Free)
			text := bytes.Repeat([]byte("x"), n)
			for range 5 { // each returns what it took
				read, release, err := budget.Read(t.Context(), iotest.HalfReader(bytes.NewReader(text)), most)
				if large := int64(n) > most; large != errors.Is(err, intake.ErrTooLarge) || !large &&
					(err != nil || !bytes.Equal(read, text)) || large && read != nil {
					t.Errorf("%d of at most %d: %d bytes, %v", n, most, len(read), err)
				}
				release()
			}
		}
	}
	read, release, err := intake.New(0).Read(t.Context(),
		io.MultiReader(bytes.NewReader([]byte("cut")), iotest.ErrReader(io.ErrUnexpectedEOF)), 1000)
	if release(); string(read) != "cut" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("cut off: %q, %v", read, err)
	}
}

// A large answer waits while other answers hold the budget. A small answer never waits.
func TestLargeAnswersWait(t *testing.T) {
	t.Parallel()
	const most = 4 * intake.Free
	synctest.Test(t, func(t *testing.T) {
		budget := intake.New(2 * most)
		large := func() io.Reader { return bytes.NewReader(make([]byte, most)) }
		held, letGo := intake.Hold(t.Context())
		_, release, err := budget.Read(held, large(), most)
		if release(); err != nil {
			t.Fatal(err)
		}
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, err = budget.Read(soon, large(), most); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a second one did not wait: %v", err)
		}
		if _, _, err = budget.Read(t.Context(), bytes.NewReader(make([]byte, intake.Free-1)), most); err != nil {
			t.Errorf("a small one: %v", err)
		}
		read := make(chan error, 1)
		go func() {
			_, release, err := budget.Read(t.Context(), large(), most)
			release()
			read <- err
		}()
		synctest.Wait()
		select {
		case err := <-read:
			t.Errorf("read beside the first one: %v", err)
		default:
		}
		letGo()
		letGo() // a second call has no effect
		if err := <-read; err != nil {
			t.Error(err)
		}
	})
}

// Read returns at most the allowed bytes of any body.
func FuzzRead(f *testing.F) {
	f.Add([]byte("answer"), int64(3))
	f.Add([]byte{}, int64(0))
	f.Fuzz(func(t *testing.T, text []byte, most int64) {
		most = max(0, most%(1<<20))
		read, release, err := intake.New(1<<20).Read(t.Context(), iotest.OneByteReader(bytes.NewReader(text)), most)
		release()
		if int64(len(read)) > most || err == nil && !bytes.Equal(read, text) || (err != nil) != (int64(len(text)) > most) {
			t.Errorf("%d of %d bytes: %v", len(read), len(text), err)
		}
	})
}
