package packed

import (
	"errors"

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
		se.HasErrorCode(afterReplace) ||
		se.HasErrorMessage(ofDocumentDB))
}
