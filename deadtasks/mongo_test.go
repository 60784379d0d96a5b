package deadtasks_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/headway-go/headway/deadtasks"
	"github.com/headway-go/headway/internal/fleet/deadletter"
	"github.com/headway-go/headway/internal/line/asynqdb"
	"github.com/headway-go/headway/internal/test/night"
	"github.com/headway-go/headway/reservations/mongostore"
)

// TestInMongoDB runs tests of this package with records in MongoDB, and tasks in a real Redis.
func TestInMongoDB(t *testing.T) {
	t.Parallel()
	some := map[string]func(*testing.T){
		"ARecordHasAllThatIsNeeded": TestARecordHasAllThatIsNeeded, "WhatExpires": TestWhatExpires,
		"Unknown": TestUnknown, "NewestFirst": TestNewestFirst, "TwoRequeuesAtOnce": TestTwoRequeuesAtOnce,
	}
	others := map[string]func(*testing.T){
		"AnIDThatIsUsedAgain":             TestAnIDThatIsUsedAgain,
		"LateAttemptDoesNotReviveTheDead": TestLateAttemptDoesNotReviveTheDead,
		"UnknownOfOneID":                  TestUnknownOfOneID,
		"RecordedByMany":                  TestRecordedByMany,
		"MoreThanAsynqKeeps":              TestMoreThanAsynqKeeps,
		"PayloadThatDoesNotFit":           TestPayloadThatDoesNotFit,
		"PoisonKeepsNothingBack":          TestPoisonKeepsNothingBack,
		"PoisonIsPassedOver":              TestPoisonIsPassedOver,
		"RequeueAsItWas":                  TestRequeueAsItWas,
		"RequeueChooses":                  TestRequeueChooses,
		"RequeueWhatIsInTheQueue":         TestRequeueWhatIsInTheQueue,
		"RequeueDropsTheDeadline":         TestRequeueDropsTheDeadline,
		"Delete":                          TestDelete,
		"LifeAfterDeath":                  TestLifeAfterDeath,
		"KilledBetweenRecordAndArchive":   TestKilledBetweenRecordAndArchive,
		"ArchivedByHand":                  TestArchivedByHand,
	}
	for name, test := range some {
		t.Run(name, test)
	}
	if night.Part(t, "the documents of MongoDB and of Redis pass one suite") {
		return
	}
	for name, test := range others { //nolint:paralleltest // each test calls Parallel
		t.Run(name, test)
	}
}

func TestUnavailable(t *testing.T) {
	t.Parallel()
	client, err := mongo.Connect(
		options.Client().ApplyURI("mongodb://127.0.0.1:1").SetServerSelectionTimeout(50 * time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Disconnect(context.WithoutCancel(t.Context())) })
	s := deadtasks.New(mongostore.Documents(client.Database("x")), deadtasks.Options{})
	_, unknown := s.Recorder().Unknown(t.Context(), []asynqdb.Archived{{ID: "a"}})
	var listing error
	for _, err := range s.List(t.Context(), deadtasks.Filter{}) {
		listing = err
	}
	for name, err := range map[string]error{
		"record":    s.Recorder().Record(t.Context(), []deadletter.Task{died(1)}),
		"failed":    s.Recorder().Failed(t.Context(), refOf(died(1)), failedAttempt(1)),
		"recovered": s.Recorder().Recovered(t.Context(), refOf(died(1))), "unknown": unknown, "list": listing,
		"sent again": s.Recorder().SentAgain(t.Context(), "q", []string{"a"}), "indexes": s.EnsureIndexes(t.Context()),
	} {
		if !errors.Is(err, deadtasks.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
