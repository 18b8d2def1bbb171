package place

import "testing"

func TestParse(t *testing.T) {
	for _, text := range []string{"", "http://x", "s3:///prefix", "s3://u:p@b/x", "s3://b?endpoint=x", "s3://b?endpoint=https://u:secret@h", "s3://b?key=secret", "s3://b?endpoint=https://h/path"} {
		if p, err := Parse(text, Access{}); err == nil {
			t.Errorf("%q is %v", text, p)
		}
	}
	if _, err := Parse("s3://b", Access{CAFile: "/nonexistent"}); err == nil {
		t.Error("roots that are not there")
	}
}
