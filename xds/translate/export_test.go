package translate

// Remembers says how much is remembered of a host.
func (t *Translator) Remembers(host string) int { return len(t.memo[host]) }
