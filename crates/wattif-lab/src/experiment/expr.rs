//! The language of `holds`: a condition over simulated and published figures.
//!
//! ```text
//! ratio <= 1/5 and 50 <= simulated('linux-5.4') <= 200
//! ```
//! Numbers, `+ - * / ( )`, comparisons that may be chained, `and or not`; `ratio`, `ratio_lo`, `ratio_hi` (the row's ratio
//! and its interval); `simulated('arm')`, `lo('arm')`, `hi('arm')` (mean over seeds and its interval; a second string names
//! another metric); `stddev`, `least`, `most` likewise (over the seeds); `published('arm')`; `abs(x)`, `min(x, …)`, `max(x, …)`.

use crate::stats::Over;
use std::collections::BTreeSet;

/// Deeper nesting is refused; no condition for people comes near.
const MAX_DEPTH: usize = 64;

/// What an expression asks for. `None`: there is no such figure.
pub trait Figures {
    /// Mean over seeds, of the row's metric or of `metric`.
    fn simulated(&self, arm: &str, metric: Option<&str>) -> Option<f64>;
    /// Another figure of all seeds than their mean.
    fn over(&self, arm: &str, metric: Option<&str>, over: Over) -> Option<f64>;
    /// Its 95 % interval.
    fn interval(&self, arm: &str, metric: Option<&str>) -> Option<[f64; 2]>;
    /// As published.
    fn published(&self, arm: &str) -> Option<f64>;
    /// The row's ratio.
    fn ratio(&self) -> Option<f64>;
    /// Its 95 % interval.
    fn ratio_interval(&self) -> Option<[f64; 2]>;
}

/// A mistake in an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExprError {
    /// Byte of the text.
    pub at: usize,
    /// What is wrong there.
    pub message: String,
}

/// Why a condition cannot be judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// A figure, in words.
    Figure(String),
    /// The interval of a figure that is there.
    Interval(String),
}

/// A condition that has been parsed: every name is known, and it is true or false.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    text: String,
    root: Node,
}

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Number(f64),
    Figure(Figure, String, Option<String>),
    Ratio(RatioPart),
    Fold(Fold, Vec<Node>),
    Negate(Box<Node>),
    Arithmetic(char, Box<Node>, Box<Node>),
    Compare(Box<Node>, Vec<(Comparison, Node)>),
    And(Vec<Node>),
    Or(Vec<Node>),
    Not(Box<Node>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Figure {
    Simulated,
    Over(Over),
    Published,
    Lo,
    Hi,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum RatioPart {
    Value,
    Lo,
    Hi,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fold {
    Abs,
    Min,
    Max,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Comparison {
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Equal,
    NotEqual,
}

impl Expr {
    /// Parse a condition.
    pub fn parse(text: &str) -> Result<Expr, ExprError> {
        let mut parser = Parser { tokens: tokens(text)?, next: 0, end: text.len(), depth: 0 };
        let (root, at) = (parser.any()?, 0);
        if let Some((token, at)) = parser.peek() {
            return fail(*at, format!("`{token}` is not expected here"));
        }
        if !root.is_condition() {
            return fail(at, "this is a number; a condition such as `ratio <= 1` is needed");
        }
        Ok(Expr { text: text.to_owned(), root })
    }

    /// As written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Is it so? The error says which figure is missing.
    pub fn eval(&self, figures: &dyn Figures) -> Result<bool, Missing> {
        self.root.truth(figures)
    }

    /// Arms it names.
    pub fn arms(&self) -> BTreeSet<&str> {
        let mut arms = BTreeSet::new();
        self.root.visit(&mut |node| {
            if let Node::Figure(_, arm, _) = node {
                arms.insert(arm.as_str());
            }
        });
        arms
    }

    /// Does it need the row's ratio?
    pub fn uses_ratio(&self) -> bool {
        let mut uses = false;
        self.root.visit(&mut |node| uses |= matches!(node, Node::Ratio(_)));
        uses
    }

    /// Metrics it names.
    pub fn metrics(&self) -> BTreeSet<&str> {
        let mut metrics = BTreeSet::new();
        self.root.visit(&mut |node| {
            if let Node::Figure(_, _, Some(metric)) = node {
                metrics.insert(metric.as_str());
            }
        });
        metrics
    }
}

impl Node {
    fn is_condition(&self) -> bool {
        matches!(self, Node::Compare(..) | Node::And(_) | Node::Or(_) | Node::Not(_))
    }

    fn visit<'a>(&'a self, see: &mut dyn FnMut(&'a Node)) {
        see(self);
        match self {
            Node::Number(_) | Node::Figure(..) | Node::Ratio(_) => {}
            Node::Fold(_, nodes) | Node::And(nodes) | Node::Or(nodes) => nodes.iter().for_each(|n| n.visit(see)),
            Node::Negate(n) | Node::Not(n) => n.visit(see),
            Node::Arithmetic(_, a, b) => [a, b].into_iter().for_each(|n| n.visit(see)),
            Node::Compare(first, rest) => {
                first.visit(see);
                rest.iter().for_each(|(_, n)| n.visit(see));
            }
        }
    }

    fn truth(&self, figures: &dyn Figures) -> Result<bool, Missing> {
        match self {
            Node::And(nodes) => all(nodes, figures, true),
            Node::Or(nodes) => all(nodes, figures, false).map(|none| !none),
            Node::Not(node) => node.truth(figures).map(|t| !t),
            Node::Compare(first, rest) => {
                let mut left = first.value(figures)?;
                let mut holds = true;
                for (comparison, node) in rest {
                    let right = node.value(figures)?;
                    holds &= comparison.holds(left, right);
                    left = right;
                }
                Ok(holds)
            }
            _ => unreachable!("the parser puts conditions where truth is asked"),
        }
    }

    fn value(&self, figures: &dyn Figures) -> Result<f64, Missing> {
        match self {
            Node::Number(n) => Ok(*n),
            Node::Figure(figure, arm, metric) => figure.get(figures, arm, metric.as_deref()),
            Node::Ratio(part) => part.get(figures),
            Node::Negate(node) => Ok(-node.value(figures)?),
            Node::Fold(fold, nodes) => fold.over(nodes, figures),
            Node::Arithmetic(op, a, b) => {
                let (a, b) = (a.value(figures)?, b.value(figures)?);
                Ok(match op {
                    '+' => a + b,
                    '-' => a - b,
                    '*' => a * b,
                    _ => a / b,
                })
            }
            _ => unreachable!("the parser puts numbers where a value is asked"),
        }
    }
}

/// Are all of `nodes` equal to `want`? All are evaluated, so that a missing figure is never hidden.
fn all(nodes: &[Node], figures: &dyn Figures, want: bool) -> Result<bool, Missing> {
    nodes.iter().try_fold(true, |so_far, node| Ok(so_far & (node.truth(figures)? == want)))
}

impl Figure {
    fn get(self, figures: &dyn Figures, arm: &str, metric: Option<&str>) -> Result<f64, Missing> {
        let (value, what) = match self {
            Figure::Simulated => (figures.simulated(arm, metric), "simulated value"),
            Figure::Over(over) => (figures.over(arm, metric, over), "simulated value"),
            Figure::Published => (figures.published(arm), "published value"),
            Figure::Lo => (figures.interval(arm, metric).map(|c| c[0]), "interval"),
            Figure::Hi => (figures.interval(arm, metric).map(|c| c[1]), "interval"),
        };
        let of = metric.map_or(String::new(), |m| format!(" of `{m}`"));
        let missing = || {
            let why = format!("no {what}{of} for `{arm}`");
            let ends = matches!(self, Figure::Lo | Figure::Hi) && figures.simulated(arm, metric).is_some();
            if ends { Missing::Interval(why) } else { Missing::Figure(why) }
        };
        value.ok_or_else(missing)
    }
}

impl RatioPart {
    fn get(self, figures: &dyn Figures) -> Result<f64, Missing> {
        let ratio = figures.ratio().ok_or_else(|| Missing::Figure("the ratio has no value".into()))?;
        let ends = || figures.ratio_interval().ok_or_else(|| Missing::Interval("the ratio has no interval".into()));
        Ok(match self {
            RatioPart::Value => ratio,
            RatioPart::Lo => ends()?[0],
            RatioPart::Hi => ends()?[1],
        })
    }
}

impl Fold {
    fn over(self, nodes: &[Node], figures: &dyn Figures) -> Result<f64, Missing> {
        let values: Vec<f64> = nodes.iter().map(|n| n.value(figures)).collect::<Result<_, _>>()?;
        Ok(match self {
            Fold::Abs => values[0].abs(),
            Fold::Min => values.into_iter().fold(f64::INFINITY, f64::min),
            Fold::Max => values.into_iter().fold(f64::NEG_INFINITY, f64::max),
        })
    }
}

impl Comparison {
    fn of(token: &str) -> Option<Comparison> {
        Some(match token {
            "<" => Comparison::Less,
            "<=" => Comparison::LessEqual,
            ">" => Comparison::Greater,
            ">=" => Comparison::GreaterEqual,
            "==" => Comparison::Equal,
            "!=" => Comparison::NotEqual,
            _ => return None,
        })
    }
    /// False for what is not a number, whatever the comparison.
    fn holds(self, a: f64, b: f64) -> bool {
        match self {
            Comparison::Less => a < b,
            Comparison::LessEqual => a <= b,
            Comparison::Greater => a > b,
            Comparison::GreaterEqual => a >= b,
            Comparison::Equal => a == b,
            Comparison::NotEqual => a != b && !a.is_nan() && !b.is_nan(),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Number(f64, String),
    Word(String),
    Text(String),
    Sign(String),
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Token::Number(_, text) | Token::Word(text) | Token::Sign(text) => f.write_str(text),
            Token::Text(text) => write!(f, "'{text}'"),
        }
    }
}

fn fail<T>(at: usize, message: impl Into<String>) -> Result<T, ExprError> {
    Err(ExprError { at, message: message.into() })
}

fn tokens(text: &str) -> Result<Vec<(Token, usize)>, ExprError> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        if c.is_whitespace() {
            at += c.len_utf8();
            continue;
        }
        let (token, length) = token(&text[at..], c, at)?;
        found.push((token, at));
        at += length;
    }
    Ok(found)
}

/// The token at the start of `rest`, and its length.
fn token(rest: &str, first: char, at: usize) -> Result<(Token, usize), ExprError> {
    let while_ = |keep: &dyn Fn(char) -> bool| rest.find(|c| !keep(c)).unwrap_or(rest.len());
    match first {
        '0'..='9' | '.' => {
            let length = number_length(rest);
            let Ok(value) = rest[..length].parse() else {
                return fail(at, format!("`{}` is not a number", &rest[..length]));
            };
            Ok((Token::Number(value, rest[..length].to_owned()), length))
        }
        'a'..='z' | 'A'..='Z' | '_' => {
            let length = while_(&|c| c.is_ascii_alphanumeric() || c == '_');
            Ok((Token::Word(rest[..length].to_owned()), length))
        }
        '\'' | '"' => match rest[1..].find(first) {
            Some(length) => Ok((Token::Text(rest[1..=length].to_owned()), length + 2)),
            None => fail(at, "this string has no end"),
        },
        _ => {
            let two = rest.get(..2).filter(|s| matches!(*s, "<=" | ">=" | "==" | "!="));
            let one = rest.get(..1).filter(|s| "<>+-*/(),".contains(*s));
            let Some(sign) = two.or(one) else { return fail(at, format!("`{first}` means nothing here")) };
            Ok((Token::Sign(sign.to_owned()), sign.len()))
        }
    }
}

/// Digits, a point, and an exponent with its sign.
fn number_length(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let digits = |from: usize| from + bytes[from..].iter().take_while(|b| b.is_ascii_digit() || **b == b'.').count();
    let end = digits(0);
    let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
    let exponent =
        matches!(bytes.get(end), Some(b'e' | b'E')) && bytes.get(end + 1 + sign).is_some_and(u8::is_ascii_digit);
    if exponent { digits(end + 1 + sign) } else { end }
}

struct Parser {
    tokens: Vec<(Token, usize)>,
    next: usize,
    end: usize,
    depth: usize,
}

type Parsed = Result<Node, ExprError>;

impl Parser {
    fn peek(&self) -> Option<&(Token, usize)> {
        self.tokens.get(self.next)
    }
    /// Where the next token begins, or the end of the text.
    fn at(&self) -> usize {
        self.peek().map_or(self.end, |t| t.1)
    }
    fn take_sign(&mut self, of: &[&str]) -> Option<String> {
        let found = match self.peek() {
            Some((Token::Sign(sign), _)) if of.contains(&sign.as_str()) => sign.clone(),
            _ => return None,
        };
        self.next += 1;
        Some(found)
    }
    fn take_word(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), Some((Token::Word(w), _)) if w == word);
        self.next += usize::from(found);
        found
    }
    fn expect(&mut self, sign: &str) -> Result<(), ExprError> {
        let at = self.at();
        self.take_sign(&[sign]).map(|_| ()).map_or_else(|| fail(at, format!("`{sign}` is expected here")), Ok)
    }

    /// `or` binds least.
    fn any(&mut self) -> Parsed {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return fail(self.at(), "this is nested too deeply");
        }
        let node = self.joined("or", Parser::every, Node::Or);
        self.depth -= 1;
        node
    }
    fn every(&mut self) -> Parsed {
        self.joined("and", Parser::not, Node::And)
    }
    fn joined(&mut self, word: &str, operand: fn(&mut Parser) -> Parsed, node: fn(Vec<Node>) -> Node) -> Parsed {
        let at = self.at();
        let first = operand(self)?;
        if !self.take_word(word) {
            return Ok(first);
        }
        let mut operands = vec![condition(first, at)?];
        loop {
            let at = self.at();
            operands.push(condition(operand(self)?, at)?);
            if !self.take_word(word) {
                return Ok(node(operands));
            }
        }
    }
    fn not(&mut self) -> Parsed {
        let mut nots = 0;
        while self.take_word("not") {
            nots += 1;
        }
        let at = self.at();
        let node = self.comparison()?;
        if nots == 0 {
            return Ok(node);
        }
        let node = condition(node, at)?;
        Ok(if nots % 2 == 1 { Node::Not(Box::new(node)) } else { node })
    }
    fn comparison(&mut self) -> Parsed {
        let at = self.at();
        let first = self.sum()?;
        let mut rest = Vec::new();
        while let Some(sign) = self.take_sign(&["<", "<=", ">", ">=", "==", "!="]) {
            let at = self.at();
            let right = value(self.sum()?, at)?;
            rest.push((Comparison::of(&sign).expect("one of the signs taken"), right));
        }
        if rest.is_empty() { Ok(first) } else { Ok(Node::Compare(Box::new(value(first, at)?), rest)) }
    }
    fn sum(&mut self) -> Parsed {
        self.left_to_right(&["+", "-"], Parser::product)
    }
    fn product(&mut self) -> Parsed {
        self.left_to_right(&["*", "/"], Parser::signed)
    }
    fn left_to_right(&mut self, signs: &[&str], operand: fn(&mut Parser) -> Parsed) -> Parsed {
        let at = self.at();
        let mut left = operand(self)?;
        let mut length = 0;
        while let Some(sign) = self.take_sign(signs) {
            length += 1;
            if length > MAX_DEPTH {
                return fail(self.at(), "this is too long");
            }
            let right_at = self.at();
            let right = value(operand(self)?, right_at)?;
            let sign = sign.chars().next().expect("signs are not empty");
            left = Node::Arithmetic(sign, Box::new(value(left, at)?), Box::new(right));
        }
        Ok(left)
    }
    fn signed(&mut self) -> Parsed {
        let mut negative = false;
        let mut any = false;
        while let Some(sign) = self.take_sign(&["-", "+"]) {
            any = true;
            negative ^= sign == "-";
        }
        let at = self.at();
        let node = self.primary()?;
        let node = if any { value(node, at)? } else { node };
        Ok(if negative { Node::Negate(Box::new(node)) } else { node })
    }
    fn primary(&mut self) -> Parsed {
        let at = self.at();
        let Some((token, _)) = self.tokens.get(self.next).cloned() else {
            return fail(at, "something is missing at the end");
        };
        self.next += 1;
        match token {
            Token::Number(n, _) => Ok(Node::Number(n)),
            Token::Word(word) => self.word(&word, at),
            Token::Sign(sign) if sign == "(" => {
                let node = self.any()?;
                self.expect(")")?;
                Ok(node)
            }
            other => fail(at, format!("a number, a name or `(` is expected here, not `{other}`")),
        }
    }
    fn word(&mut self, word: &str, at: usize) -> Parsed {
        match word {
            "ratio" => Ok(Node::Ratio(RatioPart::Value)),
            "ratio_lo" => Ok(Node::Ratio(RatioPart::Lo)),
            "ratio_hi" => Ok(Node::Ratio(RatioPart::Hi)),
            "simulated" => self.figure(Figure::Simulated),
            "stddev" => self.figure(Figure::Over(Over::Stddev)),
            "least" => self.figure(Figure::Over(Over::Min)),
            "most" => self.figure(Figure::Over(Over::Max)),
            "published" => self.figure(Figure::Published),
            "lo" => self.figure(Figure::Lo),
            "hi" => self.figure(Figure::Hi),
            "abs" => self.fold(Fold::Abs, at),
            "min" => self.fold(Fold::Min, at),
            "max" => self.fold(Fold::Max, at),
            _ => fail(
                at,
                format!(
                    "`{word}` is unknown; known are ratio, ratio_lo, ratio_hi, simulated, stddev, least, most, published, lo, \
                     hi, abs, min, max, and, or, not"
                ),
            ),
        }
    }
    fn figure(&mut self, figure: Figure) -> Parsed {
        self.expect("(")?;
        let arm = self.string("the name of an arm")?;
        let at = self.at();
        let metric = self.take_sign(&[","]).map(|_| self.string("the name of a metric")).transpose()?;
        if figure == Figure::Published && metric.is_some() {
            return fail(at, "published() has only the metric of its row");
        }
        self.expect(")")?;
        Ok(Node::Figure(figure, arm, metric))
    }
    fn string(&mut self, what: &str) -> Result<String, ExprError> {
        match self.tokens.get(self.next).cloned() {
            Some((Token::Text(text), _)) => {
                self.next += 1;
                Ok(text)
            }
            _ => fail(self.at(), format!("{what} in quotes is expected here")),
        }
    }
    fn fold(&mut self, fold: Fold, at: usize) -> Parsed {
        self.expect("(")?;
        let mut nodes = Vec::new();
        loop {
            let at = self.at();
            nodes.push(value(self.any()?, at)?);
            if self.take_sign(&[","]).is_none() {
                break;
            }
        }
        self.expect(")")?;
        if fold == Fold::Abs && nodes.len() != 1 {
            return fail(at, "abs takes one number");
        }
        Ok(Node::Fold(fold, nodes))
    }
}

fn condition(node: Node, at: usize) -> Parsed {
    if node.is_condition() { Ok(node) } else { fail(at, "a condition is expected here, and this is a number") }
}

fn value(node: Node, at: usize) -> Parsed {
    if node.is_condition() { fail(at, "a number is expected here, and this is a condition") } else { Ok(node) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct Sample;

    impl Figures for Sample {
        fn simulated(&self, arm: &str, metric: Option<&str>) -> Option<f64> {
            match (arm, metric) {
                ("linux-5.4", None) => Some(100.0),
                ("linux-5.3", None) => Some(1000.0),
                ("linux-5.4", Some("wu_lat_us.p99")) => Some(500.0),
                _ => None,
            }
        }
        fn over(&self, arm: &str, metric: Option<&str>, over: Over) -> Option<f64> {
            Some(over.of(&[self.simulated(arm, metric)?, 400.0]))
        }
        fn interval(&self, arm: &str, metric: Option<&str>) -> Option<[f64; 2]> {
            self.simulated(arm, metric).map(|v| [v * 0.9, v * 1.1])
        }
        fn published(&self, arm: &str) -> Option<f64> {
            (arm == "linux-5.4").then_some(101.5)
        }
        fn ratio(&self) -> Option<f64> {
            Some(0.1)
        }
        fn ratio_interval(&self) -> Option<[f64; 2]> {
            None
        }
    }

    fn check(text: &str, expect: bool) {
        let expr = Expr::parse(text).unwrap_or_else(|e| panic!("{text}: {e:?}"));
        assert_eq!(expr.eval(&Sample), Ok(expect), "{text}");
    }

    fn check_error(text: &str, at: usize, part: &str) {
        let error = Expr::parse(text).expect_err(text);
        assert!(error.at == at && error.message.contains(part), "{text}: {error:?}");
    }

    #[test]
    fn conditions() {
        check("ratio <= 1/5 and 50 <= simulated('linux-5.4') <= 200", true);
        check("0.95 <= ratio <= 1.05", false);
        check("abs(simulated(\"linux-5.4\") - published('linux-5.4')) / published('linux-5.4') < 3e-2", true);
        check("lo('linux-5.4') == 90 and hi('linux-5.4') > 109", true);
        check("simulated('linux-5.4', 'wu_lat_us.p99') == 500", true);
        check(
            "least('linux-5.4') == 100 and most('linux-5.4') == 400 and most('linux-5.4', 'wu_lat_us.p99') == 500",
            true,
        );
        check("abs(stddev('linux-5.4') - 212.13) < 0.01", true);
        check("not ratio > 1 or ratio > 1", true);
        check("not (ratio < 1 and 1 < 2)", false);
        check("1 + 2 * 3 == 7 and (1 + 2) * 3 == 9 and 8 / 4 / 2 == 1 and 5 - 2 - 1 == 2", true);
        check("-2 < -1 < --1 and min(3, 1 + 1, 4) == 2 and max(-1) == -1", true);
        check("1 < 2 != 2", false);
        check("1 < 2 or 1 < 0 and 1 < 0", true);
        check("1/0 > 1 and 0/0 == 0/0", false);
        check("0/0 != 1", false);
    }

    #[test]
    fn mistakes_have_a_place() {
        check_error("ratio", 0, "number");
        check_error("", 0, "missing");
        check_error("ratio <", 7, "missing");
        check_error("ratio < 1 2", 10, "`2` is not expected");
        check_error("ratioo < 1", 0, "`ratioo` is unknown");
        check_error("(1 < 2) + 1 > 0", 0, "this is a condition");
        check_error("1 < 2 and 3", 10, "this is a number");
        check_error("simulated(linux) < 1", 10, "in quotes");
        check_error("simulated('x < 1", 10, "no end");
        check_error("simulated('x' < 1", 14, "`)` is expected");
        check_error("published('x', 'y') < 1", 13, "only the metric");
        check_error("ratio # 1", 6, "`#`");
        check_error("1.2.3 < 1", 0, "not a number");
        check_error("abs(1, 2) < 1", 0, "one number");
        check_error("ratio µ", 6, "`µ`");
        let deep = "(".repeat(200) + "1" + &")".repeat(200) + " < 1";
        check_error(&deep, 64, "too deeply");
        let long = "1".to_owned() + &"+1".repeat(100_000) + " > 0";
        assert!(Expr::parse(&long).is_err());
    }

    #[test]
    fn names_used() {
        let e = Expr::parse("simulated('a') < hi('b', 'm') or not published('a') > ratio").unwrap();
        assert_eq!((e.arms(), e.metrics(), e.uses_ratio()), (["a", "b"].into(), ["m"].into(), true));
        assert!(!Expr::parse("1 < 2").unwrap().uses_ratio());
    }

    /// A missing figure is an error even where the other side would decide.
    #[test]
    fn missing_figures() {
        for (text, part) in [
            ("ratio > 1 and simulated('nobody') > 1", "no simulated value for `nobody`"),
            ("ratio < 1 or ratio_lo > 1", "the ratio has no interval"),
            ("published('linux-5.3') > 1", "no published value"),
            ("lo('linux-5.3', 'x') > 1", "no interval of `x`"),
        ] {
            let (Missing::Figure(why) | Missing::Interval(why)) = Expr::parse(text).unwrap().eval(&Sample).unwrap_err();
            assert!(why.contains(part), "{text}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in "[a-z0-9 ().,'<>=!+*/µ-]{0,40}") {
            if let Ok(e) = Expr::parse(&text) {
                let _ = e.eval(&Sample);
            }
        }
        #[test]
        fn prefixes_never_panic(cut in 0usize..70) {
            let text = "ratio <= 1/5 and 50 <= simulated('linux-5.4', 'µ') <= 2e+2 or not (1 < 2)";
            if let Some(part) = text.get(..cut) {
                let _ = Expr::parse(part);
            }
        }
    }
}
