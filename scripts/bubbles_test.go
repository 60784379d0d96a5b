package scripts_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// clocks are the calls that a bubble makes harmless. programs start a process.
var clocks = regexp.MustCompile(
	`^(time\.(Since|After|AfterFunc|Sleep|NewTimer|NewTicker|Tick)|exec\.Command(Context)?)$`)

// deadlines are calls whose last argument is the time until a context ends.
var deadlines = regexp.MustCompile(`^context\.WithTimeout(Cause)?$`)

// shortest is the least patience of a test: a busy machine may take as long for anything.
const shortest = time.Minute

// faults are the calls by which time decides a test of the gate, with their places.
func (s *testSource) faults() []string {
	s.declare()
	s.findBubbles()
	var found []string
	seen := map[ast.Node]bool{}
	var visit func(ast.Node)
	visit = func(node ast.Node) {
		if seen[node] {
			return
		}
		seen[node] = true
		s.outside(node, func(call *ast.CallExpr) {
			if at := s.fset.Position(call.Pos()); s.timed(call) && !s.excepted[line(at)] {
				found = append(found, fmt.Sprintf("%s: %s", at, callee(call)))
			}
		}, func(name string) {
			for _, declared := range s.named[name] {
				visit(declared)
			}
		})
	}
	for _, file := range s.files {
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && entry.MatchString(f.Name.Name) && !s.ofTheNight(f) {
				visit(f)
			}
		}
	}
	slices.Sort(found)
	return found
}

var entry = regexp.MustCompile(`^(Test|Example|Fuzz)`)

// declare fills what the names of the package declare, and which lines are excepted.
func (s *testSource) declare() {
	s.named, s.excepted = map[string][]ast.Node{}, map[string]bool{}
	add := func(name string, n ast.Node) { s.named[name] = append(s.named[name], n) }
	for _, file := range s.files {
		for _, group := range file.Comments {
			for _, c := range group.List {
				if _, why, ok := strings.Cut(c.Text, "//gate:ok "); ok && strings.TrimSpace(why) != "" {
					s.excepted[line(s.fset.Position(c.Pos()))] = true
				}
			}
		}
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					add(d.Name.Name, d)
				} else {
					add(receiver(d), d)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch spec := spec.(type) {
					case *ast.ValueSpec:
						for _, name := range spec.Names {
							add(name.Name, spec)
						}
					case *ast.TypeSpec:
						add(spec.Name.Name, spec)
					}
				}
			}
		}
	}
}

// findBubbles finds the functions of the package that use a function they are given only in a bubble.
func (s *testSource) findBubbles() {
	s.bubbles = map[string]bool{"synctest.Test": true, "headwaytest.Run": true}
	for grown := true; grown; {
		grown = false
		for name, nodes := range s.named {
			for _, n := range nodes {
				if f, ok := n.(*ast.FuncDecl); ok && !s.bubbles[name] && f.Recv == nil && s.runsInBubble(f) {
					s.bubbles[name], grown = true, true
				}
			}
		}
	}
}

// runsInBubble reports whether f has a parameter that is a function, and uses each of these only in a bubble.
func (s *testSource) runsInBubble(f *ast.FuncDecl) bool {
	given := map[string]bool{}
	for _, p := range f.Type.Params.List {
		if _, ok := p.Type.(*ast.FuncType); ok {
			for _, name := range p.Names {
				given[name.Name] = true
			}
		}
	}
	outside := len(given) == 0 || f.Body == nil
	if !outside {
		s.outside(f.Body, func(*ast.CallExpr) {}, func(name string) { outside = outside || given[name] })
	}
	return !outside
}

// outside calls do for each call below node that is outside of bubbles, and use for each name that is used there.
func (s *testSource) outside(node ast.Node, do func(*ast.CallExpr), use func(string)) {
	ast.Inspect(node, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			do(n)
			if s.bubbles[callee(n)] {
				for _, arg := range n.Args {
					switch arg.(type) {
					case *ast.FuncLit, *ast.Ident: // runs in the bubble, or is a plain value
					default:
						s.outside(arg, do, use)
					}
				}
				return false
			}
		case *ast.SelectorExpr:
			s.outside(n.X, do, use)
			return false
		case *ast.Ident:
			use(n.Name)
		}
		return true
	})
}

// timed reports whether time decides when the call returns, or whether it starts a program.
func (s *testSource) timed(call *ast.CallExpr) bool {
	name := callee(call)
	if clocks.MatchString(name) {
		return true
	}
	if !deadlines.MatchString(name) || len(call.Args) < 2 {
		return false
	}
	d, known := s.duration(call.Args[1])
	return known && time.Duration(d) < shortest
}

var units = map[string]float64{
	"Nanosecond": 1, "Microsecond": 1e3, "Millisecond": 1e6, "Second": 1e9, "Minute": 60e9, "Hour": 3600e9,
}

// duration is the value of a constant duration.
func (s *testSource) duration(e ast.Expr) (float64, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		d, err := strconv.ParseFloat(e.Value, 64)
		return d, err == nil
	case *ast.SelectorExpr:
		unit, ok := units[e.Sel.Name]
		return unit, ok
	case *ast.BinaryExpr:
		x, first := s.duration(e.X)
		y, second := s.duration(e.Y)
		known, ok := map[token.Token]float64{token.MUL: x * y, token.QUO: x / y, token.ADD: x + y}[e.Op]
		return known, ok && first && second
	case *ast.Ident:
		for _, n := range s.named[e.Name] {
			if v, ok := n.(*ast.ValueSpec); ok {
				for i, name := range v.Names {
					if name.Name == e.Name && i < len(v.Values) {
						return s.duration(v.Values[i])
					}
				}
			}
		}
	}
	return 0, false
}

// ofTheNight reports whether a test is skipped in the gate.
func (s *testSource) ofTheNight(f *ast.FuncDecl) (found bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		found = found || ok && callee(call) == "night.Only"
		return !found
	})
	return found
}

// callee is the name of the function that is called, with its package or variable.
func callee(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		if x, ok := f.X.(*ast.Ident); ok {
			return x.Name + "." + f.Sel.Name
		}
	}
	return ""
}

// receiver is the name of the type of a method.
func receiver(f *ast.FuncDecl) string {
	e := f.Recv.List[0].Type
	for {
		switch typ := e.(type) {
		case *ast.StarExpr:
			e = typ.X
		case *ast.IndexExpr:
			e = typ.X
		case *ast.Ident:
			return typ.Name
		default:
			return ""
		}
	}
}

func line(at token.Position) string { return fmt.Sprintf("%s:%d", at.Filename, at.Line) }
