package packed

import (
	"errors"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver"
)

// TooLarge says whether a database turned a write away because the document would be too large: no repetition mends that, and the
// store is not away.
func TooLarge(err error) bool {
	const (
		objectTooLarge, afterUpdate, afterReplace = 10334, 17419, 17420
		// DocumentDB behind FerretDB has another code for each place.
		ofDocumentDB = "larger than MaxDocumentSize"
	)
	if errors.Is(err, driver.ErrDocumentTooLarge) {
		return true
	}
	var se mongo.ServerError
	return errors.As(err, &se) && (se.HasErrorCode(objectTooLarge) || se.HasErrorCode(afterUpdate) || se.HasErrorCode(afterReplace) ||
		se.HasErrorMessage(ofDocumentDB))
}
