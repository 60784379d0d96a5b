package reservations

// ViewOf is the View of a state of a bucket.
var ViewOf = view
