// Package busy has a test that never ends.
package busy

import (
	"testing"
	"testing/synctest"
)

func TestBusy(t *testing.T) {
	synctest.Test(t, func(*testing.T) { spin() })
}

func spin() {
	for n := 0; ; n++ {
		if n < 0 {
			n = 0
		}
	}
}
