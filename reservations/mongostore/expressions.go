package mongostore

import "go.mongodb.org/mongo-driver/v2/bson"

// The vocabulary of the pipeline: each function writes one aggregation expression. "$$name" is a variable, "$name" a field.

func op(name string, args ...any) bson.D { return bson.D{{Key: name, Value: bson.A(args)}} }

func add(terms ...any) bson.D      { return op("$add", terms...) }
func sub(a, b any) bson.D          { return op("$subtract", a, b) }
func mul(a, b any) bson.D          { return op("$multiply", a, b) }
func div(a, b any) bson.D          { return op("$divide", a, b) }
func less(a, b any) bson.D         { return op("$lt", a, b) }
func atMost(a, b any) bson.D       { return op("$lte", a, b) }
func equal(a, b any) bson.D        { return op("$eq", a, b) }
func all(conditions ...any) bson.D { return op("$and", conditions...) }
func anyOf(conditions ...any) bson.D {
	return op("$or", conditions...)
}

// either is a where condition holds, and b otherwise.
func either(condition, a, b any) bson.D { return op("$cond", condition, a, b) }

// orElse is a, or b where a is missing.
func orElse(a, b any) bson.D { return op("$ifNull", a, b) }

// smallest and largest take one array.
func smallest(of any) bson.D { return bson.D{{Key: "$min", Value: of}} }
func largest(of any) bson.D  { return bson.D{{Key: "$max", Value: of}} }

func list(items ...any) bson.A { return items }

// literal sends a value that is not to be read as an expression.
func literal(v any) bson.D { return bson.D{{Key: "$literal", Value: v}} }

// element is array[i], or array[i][j].
func element(array any, index ...any) any {
	for _, i := range index {
		array = op("$arrayElemAt", array, i)
	}
	return array
}

// forEach is the array of body for each element of over, bound to name.
func forEach(over any, name string, body any) bson.D {
	return bson.D{{Key: "$map", Value: bson.D{{Key: "input", Value: over}, {Key: "as", Value: name}, {Key: "in", Value: body}}}}
}

// where keeps the elements of over, bound to name, for which condition holds.
func where(over any, name string, condition any) bson.D {
	return bson.D{{Key: "$filter", Value: bson.D{{Key: "input", Value: over}, {Key: "as", Value: name}, {Key: "cond", Value: condition}}}}
}

// let binds name to value once in body. It maps over one element: FerretDB evaluates a variable of $let again at each use,
// which grows exponentially where they are nested.
func let(name string, value, body any) any {
	return element(forEach(list(value), name, body), 0)
}

// branch is one case of firstOf.
type branch struct{ when, then any }

// firstOf is the first branch whose condition holds, or otherwise.
func firstOf(otherwise any, branches ...branch) bson.D {
	cases := bson.A{}
	for _, b := range branches {
		cases = append(cases, bson.D{{Key: "case", Value: b.when}, {Key: "then", Value: b.then}})
	}
	return bson.D{{Key: "$switch", Value: bson.D{{Key: "branches", Value: cases}, {Key: "default", Value: otherwise}}}}
}

// fold goes through over with the pair $$value, $$this.
func fold(over, initial, body any) bson.D {
	return bson.D{{Key: "$reduce", Value: bson.D{{Key: "input", Value: over}, {Key: "initialValue", Value: initial}, {Key: "in", Value: body}}}}
}

// set is the pipeline stage that sets fields.
func set(fields ...bson.E) bson.D { return bson.D{{Key: "$set", Value: bson.D(fields)}} }

// to is one field of set, or of a document.
func to(name string, value any) bson.E { return bson.E{Key: name, Value: value} }
