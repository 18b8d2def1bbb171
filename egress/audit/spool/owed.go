package spool

// openOwed opens the file "owed", and takes over what an earlier process could not tell of. The file gets its place on the disk now: it is written when there is none left.
func (s *Spool) openOwed() {
	f, count, err := openNumber(s.dir, "owed")
	if err == nil && count == 0 {
		if err = writeNumber(f, 0); err != nil {
			_ = f.Close()
		}
	}
	if err != nil {
		s.log.Warn("audit spool: if records are lost, and this process ends before that can be told, nobody will know", "err", err)
		return
	}
	s.owedFile, s.noted = f, count
	if count > 0 {
		s.owe(count, "the audit spool could not be written before a restart")
	}
}

// noteOwed has the file say how many records are lost that no gap record tells of.
func (s *Spool) noteOwed() {
	var count uint64
	for _, g := range s.owed {
		count += g.count
	}
	if s.owedFile == nil || count == s.noted {
		return
	}
	if err := writeNumber(s.owedFile, count); err != nil {
		s.log.Debug("audit spool: a loss is not noted", "records", count, "err", err)
		return
	}
	s.noted = count
}
