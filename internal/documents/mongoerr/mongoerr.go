// Package mongoerr says what errors of MongoDB's driver mean, for servers of MongoDB and FerretDB.
package mongoerr

import (
	"context"
	"errors"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver"

	"github.com/headway-go/headway/internal/calls/pause"
)

// TooLarge returns whether a database refused a write because the document would be too large. A retry cannot
// succeed, and the store is up.
func TooLarge(err error) bool {
	const (
		objectTooLarge, afterUpdate, afterReplace = 10334, 17419, 17420
		// DocumentDB behind FerretDB returns a different code for each kind of write.
		ofDocumentDB = "larger than MaxDocumentSize"
	)
	if errors.Is(err, driver.ErrDocumentTooLarge) {
		return true
	}
	var se mongo.ServerError
	return errors.As(err, &se) && (se.HasErrorCode(objectTooLarge) || se.HasErrorCode(afterUpdate) ||
		se.HasErrorCode(afterReplace) || se.HasErrorMessage(ofDocumentDB))
}

// Codes of servers of MongoDB.
const (
	lockTimeout   = 24
	writeConflict = 112
)

// SQLSTATEs of PostgreSQL as DocumentDB encodes them in the error of one write.
const (
	serializationFailure = 16777220 // 40001
	deadlockDetected     = 16908292 // 40P01
	lockNotAvailable     = 50463045 // 55P03
)

// Undone returns whether the server says that it rolled the command back because of other commands, such as a
// deadlock. The command changed nothing, and may succeed when it is sent again. Of the error of one write of several,
// that is true of this write alone.
func Undone(err error) bool {
	var se mongo.ServerError
	if !errors.As(err, &se) {
		return false
	}
	codes := []int{lockTimeout, writeConflict, serializationFailure, deadlockDetected, lockNotAvailable}
	// FerretDB returns errors of PostgreSQL that it does not know by their texts.
	texts := []string{"deadlock detected", "could not serialize access", "canceling statement due to lock timeout"}
	return slices.ContainsFunc(codes, se.HasErrorCode) || slices.ContainsFunc(texts, se.HasErrorMessage)
}

// Transient returns whether the server or the driver says that the command may succeed when it is sent again. Unless
// it is Undone, the command may have been applied: only a read, or a write that has the same effect twice, may be
// repeated. The driver has repeated some of them once.
func Transient(err error) bool {
	labels := []string{
		"TransientTransactionError", "RetryableWriteError", "RetryableError", "SystemOverloadedError", driver.NetworkError,
	}
	codes := []int{
		6, 7, 89, 9001, // HostUnreachable, HostNotFound, NetworkTimeout, SocketException
		91, 11600, 11602, // ShutdownInProgress, InterruptedAtShutdown, InterruptedDueToReplStateChange
		189, 10107, 13435, 13436, // PrimarySteppedDown, NotWritablePrimary, NotPrimaryNoSecondaryOk, NotPrimaryOrSecondary
		134, 262, // ReadConcernMajorityNotAvailableYet, ExceededTimeLimit
	}
	if labeled, ok := errors.AsType[mongo.LabeledError](err); ok && slices.ContainsFunc(labels, labeled.HasErrorLabel) {
		return true
	}
	if se, ok := errors.AsType[mongo.ServerError](err); ok && slices.ContainsFunc(codes, se.HasErrorCode) {
		return true
	}
	return Undone(err)
}

// Repeatedly calls the server, and again after transient errors. The call is a read, or a write that has the same
// effect twice. It returns the last error.
func Repeatedly(ctx context.Context, call func() error) error {
	return pause.Briefly(ctx, Transient, call)
}

// Upsert is Repeatedly for a write that replaces a document or makes it: it is repeated also if another writer was
// faster.
func Upsert(ctx context.Context, write func() error) error {
	return pause.Briefly(ctx, func(err error) bool { return Conflict(err) || Transient(err) }, write)
}

// UnlessApplied calls the server, and again after errors that are Undone. The call is any write. It returns the last
// error.
func UnlessApplied(ctx context.Context, write func() error) error {
	return pause.Briefly(ctx, Undone, write)
}

// Conflict returns whether a write changed nothing because another writer was faster: the document exists, or it
// changed meanwhile.
func Conflict(err error) bool {
	var se mongo.ServerError
	return mongo.IsDuplicateKeyError(err) || errors.As(err, &se) && (se.HasErrorCode(writeConflict) ||
		strings.Contains(se.Error(), "duplicate key value violates unique constraint")) // FerretDB, now and then
}
