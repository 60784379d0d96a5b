// Package mongoerr says what errors of MongoDB's driver mean, for servers of MongoDB and FerretDB.
package mongoerr

import (
	"errors"
	"strings"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver"
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

// writesMost bounds the writes of one document by Patiently.
const writesMost = 5

// Patiently repeats a write while it meets other writers, at most 5 times in all. It returns the last error.
func Patiently(write func() error) (err error) {
	for range writesMost {
		if err = write(); !Conflict(err) {
			break
		}
	}
	return err
}

// Conflict returns whether a write changed nothing because another writer was faster: the document exists, or it
// changed meanwhile.
func Conflict(err error) bool {
	const writeConflict = 112
	var se mongo.ServerError
	return mongo.IsDuplicateKeyError(err) || errors.As(err, &se) && (se.HasErrorCode(writeConflict) ||
		strings.Contains(se.Error(), "duplicate key value violates unique constraint")) // FerretDB, now and then
}
