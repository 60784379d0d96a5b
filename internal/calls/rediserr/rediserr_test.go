package rediserr_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/headway-go/headway/internal/calls/rediserr"
)

type answer string

func (a answer) Error() string { return string(a) }
func (answer) RedisError()     {}

func TestTurnedAway(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]bool{
		answer("LOADING Redis is loading the dataset in memory"):                                                   true,
		answer("READONLY You can't write against a read only replica."):                                            true,
		answer("MASTERDOWN Link with MASTER is down"):                                                              true,
		answer("CLUSTERDOWN The cluster is down"):                                                                  true,
		answer("TRYAGAIN Multiple keys request during rehashing of slot"):                                          true,
		answer("NOREPLICAS Not enough good replicas to write."):                                                    true,
		answer("ERR max number of clients reached"):                                                                true,
		answer("ERR Error running script: @user_script:7: -READONLY You can't write against a read only replica."): true,
		answer("ERR Error running script: @user_script:7: WRONGTYPE"):                                              false,
		answer("OOM command not allowed when used memory > 'maxmemory'."):                                          false,
		answer("NOSCRIPT No matching script. Please use EVAL."):                                                    false,
		errors.New("LOADING is no answer of a server"):                                                             false,
	} {
		if got := rediserr.TurnedAway(fmt.Errorf("swap: %w", err)); got != want {
			t.Errorf("%v: %v", err, got)
		}
	}
	if rediserr.TurnedAway(nil) {
		t.Error("no error is one")
	}
}
