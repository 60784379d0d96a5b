package mongostore

import (
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/headway-go/headway/internal/documents"
	"github.com/headway-go/headway/internal/documents/mongodocs"
)

// Documents returns the documents of a database, for deadtasks.New. It sends nothing. The caller disconnects the
// client.
func Documents(db *mongo.Database) documents.Store { return mongodocs.New(db) }
