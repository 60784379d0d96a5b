package chart_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/products/chart"
)

// times returns moments a minute apart.
func times(n int) (x []time.Duration) {
	for i := range n {
		x = append(x, time.Duration(i)*time.Minute)
	}
	return x
}

// texts reads a document as XML and returns all of its texts.
func texts(t *testing.T, document []byte) (all []string) {
	t.Helper()
	for d := xml.NewDecoder(bytes.NewReader(document)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("not XML: %v", err)
		}
		if text, ok := token.(xml.CharData); ok {
			all = append(all, string(text))
		}
	}
}

func TestSVGHoldsEveryText(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	err := chart.SVG(&out, "a day", chart.Panel{
		Title: "Waiting", Unit: "tasks", Lines: []chart.Line{
			{Name: "acme", X: times(1441), Y: make([]float64, 1441)},
			{Name: "globex", X: times(2), Y: []float64{0, 2500000}},
		},
	}, chart.Panel{Title: "Use", Unit: "%"})
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(texts(t, out.Bytes()), "|") + "|"
	for _, want := range []string{
		"a day|", "Waiting|", "tasks|", "acme|", "globex|", "|Use|", "|%|", "|3 h|", "|24 h|", "|2.0 M|", "|500 k|",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is not in %s", want, all)
		}
	}
}

func TestSVGEscapes(t *testing.T) {
	t.Parallel()
	hostile := `</text></svg><script>alert("1")</script>&amp; ` + "\x00\x1b\xff]]>"
	var out bytes.Buffer
	line := chart.Line{Name: hostile, X: times(2), Y: []float64{1, 2}}
	panel := chart.Panel{Title: hostile, Unit: hostile, Lines: []chart.Line{line}}
	if err := chart.SVG(&out, hostile, panel); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "<script") {
		t.Error("a text became an element")
	}
	if n := strings.Count(strings.Join(texts(t, out.Bytes()), ""), "<script>"); n != 5 {
		t.Errorf("%d texts hold the script, want title twice, panel, unit, legend", n)
	}
}

func TestSVGOfExtremes(t *testing.T) {
	t.Parallel()
	for name, panels := range map[string][]chart.Panel{
		"nothing":    nil,
		"no lines":   {{Title: "x"}},
		"no points":  {{Lines: []chart.Line{{Name: "x"}}}},
		"one point":  {{Lines: []chart.Line{{Name: "x", X: times(1), Y: []float64{3}}}}},
		"no numbers": {{Lines: []chart.Line{{X: times(3), Y: []float64{math.NaN(), math.Inf(1), math.Inf(-1)}}}}},
		"negative":   {{Lines: []chart.Line{{X: []time.Duration{-time.Hour, 0}, Y: []float64{-5, 5}}}}},
		"huge":       {{Lines: []chart.Line{{X: []time.Duration{0, math.MaxInt64}, Y: []float64{-1e300, 1e300}}}}},
		"largest":    {{Lines: []chart.Line{{X: times(2), Y: []float64{-math.MaxFloat64, math.MaxFloat64}}}}},
		"tiny":       {{Lines: []chart.Line{{X: []time.Duration{0, 1}, Y: []float64{0, 5e-324}}}}},
	} {
		var out bytes.Buffer
		if err := chart.SVG(&out, name, panels...); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		texts(t, out.Bytes())
		if strings.Contains(out.String(), "NaN") || strings.Contains(out.String(), "Inf") || out.Len() > 20000 {
			t.Errorf("%s: %d bytes: %s", name, out.Len(), out.String()[:min(out.Len(), 2000)])
		}
	}
}

func TestSVGRefusesLinesOfUnequalLength(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	err := chart.SVG(&out, "x", chart.Panel{Title: "Use", Lines: []chart.Line{{Name: "a", X: times(2), Y: []float64{1}}}})
	if err == nil || !strings.Contains(err.Error(), `line "a" of chart "Use": 2 values of x and 1 of y`) || out.Len() > 0 {
		t.Errorf("%v, %d bytes", err, out.Len())
	}
}

// TestShow writes a document to look at, where CHART_FILE names a file.
func TestShow(t *testing.T) {
	t.Parallel()
	name := os.Getenv("CHART_FILE")
	if name == "" {
		t.Skip("CHART_FILE is not set")
	}
	var acme, globex, use chart.Line
	acme.Name, globex.Name, use.Name = "acme", "globex & sons", "openai tokens"
	for i := range 1441 {
		x := time.Duration(i) * time.Minute
		wave := 40 + 35*math.Sin(float64(i)/180) + 6*math.Sin(float64(i)/7)
		acme.X, acme.Y = append(acme.X, x), append(acme.Y, 130*wave)
		globex.X, globex.Y = append(globex.X, x), append(globex.Y, 90*wave+1500)
		use.X, use.Y = append(use.X, x), append(use.Y, min(100, wave+30))
	}
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	err = chart.SVG(f, "9 calls a second for 24 hours", chart.Panel{Title: "Waiting", Unit: "tasks", Lines: []chart.Line{
		acme, globex,
	}}, chart.Panel{Title: "Use of each meter", Unit: "% of the rate", Lines: []chart.Line{use}})
	if err = errors.Join(err, f.Close()); err != nil {
		t.Error(err)
	}
}
