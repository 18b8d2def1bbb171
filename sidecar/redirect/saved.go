package redirect

import "strings"

// saved is the part of iptables-save's output that concerns us, by table.
type saved map[string]*savedTable

type savedTable struct {
	chains map[string][]string // our chains and their rules
	jumps  []Jump              // rules of other chains that lead into ours
}

// parseSaved reads iptables-save's output. Lines that are not about us are skipped, whatever they hold.
func parseSaved(text string) saved {
	s := saved{}
	var table *savedTable
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		switch {
		case strings.HasPrefix(line, "*"):
			table = &savedTable{chains: map[string][]string{}}
			s[line[1:]] = table
		case table == nil:
		case strings.HasPrefix(line, ":"):
			if name, _, _ := strings.Cut(line[1:], " "); isOurs(name) {
				table.chains[name] = nil
			}
		case strings.HasPrefix(line, "-A "):
			chain, rule, _ := strings.Cut(line[len("-A "):], " ")
			if isOurs(chain) {
				table.chains[chain] = append(table.chains[chain], rule)
			} else if isOurs(target(rule)) {
				table.jumps = append(table.jumps, Jump{From: chain, Rule: rule})
			}
		}
	}
	return s
}

// empty tells whether nothing of ours is there.
func (s saved) empty() bool {
	for _, t := range s {
		if len(t.chains) > 0 || len(t.jumps) > 0 {
			return false
		}
	}
	return true
}

// target is the chain that a rule jumps or goes to. A comment may hold anything, so quotes are minded.
func target(rule string) string {
	words := splitWords(rule)
	for i := 0; i+1 < len(words); i++ {
		if words[i] == "-j" || words[i] == "-g" {
			return words[i+1]
		}
	}
	return ""
}

// splitWords cuts a rule as iptables-restore does: at blanks outside double quotes, a backslash keeps the next character.
// A quoted word keeps its opening quote, so that no comment can pass for an option.
func splitWords(rule string) []string {
	var words []string
	var word strings.Builder
	quoted, escaped, inWord := false, false, false
	for _, c := range rule {
		switch {
		case escaped:
			word.WriteRune(c)
			escaped = false
		case c == '\\':
			escaped, inWord = true, true
		case c == '"':
			if !quoted {
				word.WriteRune(c)
			}
			quoted, inWord = !quoted, true
		case c == ' ' && !quoted:
			if inWord {
				words = append(words, word.String())
				word.Reset()
			}
			inWord = false
		default:
			word.WriteRune(c)
			inWord = true
		}
	}
	if inWord {
		words = append(words, word.String())
	}
	return words
}
