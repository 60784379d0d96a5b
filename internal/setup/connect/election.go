package connect

import (
	"errors"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/description"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology"
)

const (
	// electionPatience is how long a command waits for a primary. An election takes 10 to 15 seconds.
	electionPatience = 30 * time.Second
	// electionPause is the time between two tries.
	electionPause = 500 * time.Millisecond
)

// electionCodes are the errors of a server that is no primary, or has just ceased to be one.
var electionCodes = []int{ //nolint:gochecknoglobals // a table
	91,    // ShutdownInProgress
	189,   // PrimarySteppedDown
	10107, // NotWritablePrimary
	11602, // InterruptedDueToReplStateChange
	13435, // NotPrimaryNoSecondaryOk
	13436, // NotPrimaryOrSecondary
}

// electing says whether members of a replica set answer, and none of them is primary.
func electing(err error) bool {
	if selection := (topology.ServerSelectionError{}); errors.As(err, &selection) {
		return slices.ContainsFunc(selection.Desc.Servers, func(s description.Server) bool {
			return s.Kind&description.ServerKindRSMember != 0
		})
	}
	if answer := mongo.ServerError(nil); errors.As(err, &answer) {
		return slices.ContainsFunc(electionCodes, answer.HasErrorCode)
	}
	return false
}
