package interpret

import (
	"fmt"
	"strings"
	"sync"
	"text/scanner"

	celv1 "google.golang.org/genproto/googleapis/api/expr/v1alpha1"
)

// This file reads the part of CEL (Common Expression Language) that Envoy's configuration is written in here: literals,
// attributes, members, lists, calls, and the operators ?: || && ! == != < in + -.

// expr is an expression. op is one of "lit", "id", "list", ".", "[]", or a function's name; args are its operands, a
// method's receiver first.
type expr struct {
	op   string
	name string // of an identifier or member
	lit  any    // string, int64, bool
	args []*expr
}

var parsed sync.Map // of their text

// parseCEL reads an expression.
func parseCEL(text string) *expr {
	if e, ok := parsed.Load(text); ok {
		return e.(*expr)
	}
	p := &parser{text: text}
	p.s.Init(strings.NewReader(text))
	p.s.Mode = scanner.ScanIdents | scanner.ScanInts | scanner.ScanChars | scanner.ScanStrings
	p.s.Error = func(*scanner.Scanner, string) {}
	p.next()
	e := p.whole()
	if p.tok != scanner.EOF {
		p.fail()
	}
	parsed.Store(text, e)
	return e
}

type parser struct {
	text string
	s    scanner.Scanner
	tok  rune
	lit  string
}

func (p *parser) next() {
	p.tok = p.s.Scan()
	p.lit = p.s.TokenText()
}

func (p *parser) fail() { unknown("the expression %q, at %q", p.text, p.lit) }

func (p *parser) want(tok rune) {
	if p.tok != tok {
		p.fail()
	}
	p.next()
}

// doubled reads an operator of twice the same character.
func (p *parser) doubled(c rune) bool {
	if p.tok != c || p.s.Peek() != c {
		return false
	}
	p.next()
	p.next()
	return true
}

func (p *parser) whole() *expr {
	e := p.or()
	if p.tok != '?' {
		return e
	}
	p.next()
	then := p.whole()
	p.want(':')
	return &expr{op: "?:", args: []*expr{e, then, p.whole()}}
}

func (p *parser) or() *expr {
	e := p.and()
	for p.doubled('|') {
		e = &expr{op: "||", args: []*expr{e, p.and()}}
	}
	return e
}

func (p *parser) and() *expr {
	e := p.relation()
	for p.doubled('&') {
		e = &expr{op: "&&", args: []*expr{e, p.relation()}}
	}
	return e
}

func (p *parser) relation() *expr {
	e := p.sum()
	switch {
	case p.doubled('='):
		return &expr{op: "==", args: []*expr{e, p.sum()}}
	case p.tok == '!' && p.s.Peek() == '=':
		p.next()
		p.next()
		return &expr{op: "!=", args: []*expr{e, p.sum()}}
	case p.tok == '<':
		p.next()
		return &expr{op: "<", args: []*expr{e, p.sum()}}
	case p.tok == scanner.Ident && p.lit == "in":
		p.next()
		return &expr{op: "in", args: []*expr{e, p.sum()}}
	}
	return e
}

func (p *parser) sum() *expr {
	e := p.unary()
	for p.tok == '+' || p.tok == '-' {
		op := string(p.tok)
		p.next()
		e = &expr{op: op, args: []*expr{e, p.unary()}}
	}
	return e
}

func (p *parser) unary() *expr {
	if p.tok == '!' {
		p.next()
		return &expr{op: "!", args: []*expr{p.unary()}}
	}
	e := p.primary()
	for {
		switch p.tok {
		case '.':
			p.next()
			name := p.lit
			p.want(scanner.Ident)
			if p.tok == '(' {
				e = &expr{op: name, args: append([]*expr{e}, p.list('(', ')')...)}
			} else {
				e = &expr{op: ".", name: name, args: []*expr{e}}
			}
		case '[':
			e = &expr{op: "[]", args: append([]*expr{e}, p.list('[', ']')...)}
		default:
			return e
		}
	}
}

func (p *parser) primary() *expr {
	lit := p.lit
	switch p.tok {
	case scanner.Ident:
		p.next()
		switch {
		case lit == "true" || lit == "false":
			return &expr{op: "lit", lit: lit == "true"}
		case p.tok == '(':
			return &expr{op: lit, args: p.list('(', ')')}
		default:
			return &expr{op: "id", name: lit}
		}
	case scanner.Int:
		var n int64
		_, _ = fmt.Sscan(lit, &n)
		p.next()
		return &expr{op: "lit", lit: n}
	case scanner.Char, scanner.String:
		if strings.Contains(lit, `\`) || len(lit) < 2 {
			p.fail()
		}
		p.next()
		return &expr{op: "lit", lit: lit[1 : len(lit)-1]}
	case '(':
		p.next()
		e := p.whole()
		p.want(')')
		return e
	case '[':
		return &expr{op: "list", args: p.list('[', ']')}
	}
	p.fail()
	return nil
}

func (p *parser) list(open, end rune) (out []*expr) {
	p.want(open)
	for p.tok != end {
		out = append(out, p.whole())
		if p.tok != ',' {
			break
		}
		p.next()
	}
	p.want(end)
	return out
}

// fromProto reads an expression that is given as a tree.
func fromProto(e *celv1.Expr) *expr {
	switch k := e.ExprKind.(type) {
	case *celv1.Expr_IdentExpr:
		return &expr{op: "id", name: k.IdentExpr.Name}
	case *celv1.Expr_SelectExpr:
		if k.SelectExpr.TestOnly {
			unknown("has() in an expression")
		}
		return &expr{op: ".", name: k.SelectExpr.Field, args: []*expr{fromProto(k.SelectExpr.Operand)}}
	case *celv1.Expr_ConstExpr:
		text, ok := k.ConstExpr.ConstantKind.(*celv1.Constant_StringValue)
		if !ok {
			unknown("a constant of type %T", k.ConstExpr.ConstantKind)
		}
		return &expr{op: "lit", lit: text.StringValue}
	case *celv1.Expr_CallExpr:
		out := &expr{op: k.CallExpr.Function}
		if out.op == "_[_]" {
			out.op = "[]"
		}
		out.op = strings.Trim(out.op, "_")
		if k.CallExpr.Target != nil {
			out.args = append(out.args, fromProto(k.CallExpr.Target))
		}
		for _, a := range k.CallExpr.Args {
			out.args = append(out.args, fromProto(a))
		}
		return out
	default:
		unknown("an expression of type %T", k)
		return nil
	}
}
