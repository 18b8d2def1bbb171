package table

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

// TestPictureIsXML: whatever texts say, the picture is one that can be opened, and they are in it as they are.
func TestPictureIsXML(t *testing.T) {
	for _, odd := range []string{"<script>alert(1)</script>", "&amp; ]]> \" '", "\x1b[31m", "\x00", "\ufffe", "漢字 é \u202e", "\xff"} {
		table := Table{Title: odd, Description: odd, Heads: []string{"HOST" + odd, "VERDICT"}, Verdict: 1, Rows: [][]string{{odd, "allow\" onload=\"x" + odd}}}
		var out strings.Builder
		if err := table.SVG(&out); err != nil {
			t.Fatal(err)
		}
		var texts strings.Builder
		for d := xml.NewDecoder(strings.NewReader(out.String())); ; {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%q: %v", odd, err)
			}
			switch token := token.(type) {
			case xml.StartElement:
				if token.Name.Local == "script" {
					t.Errorf("%q is an element", odd)
				}
				for _, a := range token.Attr {
					if a.Name.Local == "onload" {
						t.Errorf("%q is an attribute", odd)
					}
				}
			case xml.CharData:
				texts.Write(token)
			}
		}
		if readable := strings.ToValidUTF8(inXML(odd), "\ufffd"); !strings.Contains(texts.String(), readable) {
			t.Errorf("%q is not in the picture", odd)
		}
	}
}
