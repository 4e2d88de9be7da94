//! Reads Hermes' `.env` as Hermes does: shell-like assignments, quoted values over several lines, `${NAME}`. It skips
//! other lines.

use std::collections::BTreeMap;
use std::path::Path;

use super::ConfigError;
use super::variables::references;

#[derive(Debug, PartialEq)]
pub(super) struct Assignment {
    pub(super) name: String,
    pub(super) value: String,
    /// The line that the assignment begins on.
    pub(super) line: usize,
}

/// The assignments of a file in order. A missing file has none.
pub(super) fn read(
    path: &Path,
    environment: &BTreeMap<String, String>,
) -> Result<Vec<Assignment>, ConfigError> {
    let Some(bytes) = super::hermes::read_optional(path)? else {
        return Ok(Vec::new());
    };
    // If a file is not UTF-8, Hermes reads each byte as a character.
    let text = String::from_utf8(bytes)
        .unwrap_or_else(|error| error.as_bytes().iter().map(|b| char::from(*b)).collect());
    let mut assignments = assignments(text.trim_start_matches('\u{feff}'));
    expand(&mut assignments, environment);
    Ok(assignments)
}

/// Replaces references by the value of an earlier line, else of the environment, else by the default in
/// `${NAME:-default}`.
fn expand(assignments: &mut [Assignment], environment: &BTreeMap<String, String>) {
    let mut known = environment.clone();
    for assignment in assignments {
        assignment.value = references(&assignment.value, |inner| {
            let (name, rest) = inner.split_once(':').unwrap_or((inner, ""));
            let default = rest.strip_prefix('-').unwrap_or_default();
            Some(known.get(name).map_or(default, String::as_str).to_owned())
        });
        known.insert(assignment.name.clone(), assignment.value.clone());
    }
}

fn assignments(text: &str) -> Vec<Assignment> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let line = text[..text.len() - rest.len()].matches('\n').count() + 1;
        let after = match assignment(rest) {
            Ok((name, value, after)) => {
                found.push(Assignment { name, value, line });
                after
            }
            Err(after) => after,
        };
        rest = after.trim_start_matches(|c| c != '\n').trim_start();
    }
    found
}

/// Name, value and the rest of the text. If this is not an assignment, the text from the error on.
fn assignment(line: &str) -> Result<(String, String, &str), &str> {
    let after_export = line
        .strip_prefix("export")
        .filter(|rest| rest.starts_with([' ', '\t']));
    let line = skip_blanks(after_export.unwrap_or(line));
    let (name, rest) = name(line).ok_or(line)?;
    let value = skip_blanks(rest).strip_prefix('=').ok_or(rest)?;
    let value = skip_blanks(value);
    let Some(quote) = value.chars().next().filter(|c| matches!(c, '\'' | '"')) else {
        let (value, rest) = value.split_at(value.find(['\r', '\n']).unwrap_or(value.len()));
        return Ok((name, without_comment(value), rest));
    };
    let (value, rest) = quoted(&value[1..], quote).ok_or(value)?;
    let rest = skip_blanks(rest);
    let ends = rest.is_empty() || rest.starts_with(['#', '\r', '\n']);
    ends.then_some((name, value, rest)).ok_or(rest)
}

fn name(line: &str) -> Option<(String, &str)> {
    if let Some(quoted) = line.strip_prefix('\'') {
        let (name, rest) = quoted.split_once('\'')?;
        return (!name.is_empty()).then(|| (name.to_owned(), rest));
    }
    let end = line.find(|c: char| c == '=' || c == '#' || c.is_whitespace());
    let (name, rest) = line.split_at(end.unwrap_or(line.len()));
    (!name.is_empty()).then(|| (name.to_owned(), rest))
}

fn skip_blanks(text: &str) -> &str {
    text.trim_start_matches(|c: char| c.is_whitespace() && c != '\r' && c != '\n')
}

/// A comment begins after a blank.
fn without_comment(value: &str) -> String {
    let comment = value
        .char_indices()
        .zip(value.chars().skip(1))
        .find(|((_, blank), next)| blank.is_whitespace() && *next == '#');
    let end = comment.map_or(value.len(), |((at, _), _)| at);
    value[..end].trim_end().to_owned()
}

/// The value up to its closing quote, and the rest of the text.
fn quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            c if c == quote => return Some((value, &text[at + 1..])),
            '\\' => {
                let (_, escaped) = chars.next()?;
                match unescaped(escaped, quote) {
                    Some(meant) => value.push(meant),
                    None => value.extend(['\\', escaped]),
                }
            }
            other => value.push(other),
        }
    }
    None
}

fn unescaped(c: char, quote: char) -> Option<char> {
    match c {
        '\\' | '\'' => Some(c),
        _ if quote == '\'' => None,
        '"' => Some('"'),
        'a' => Some('\u{7}'),
        'b' => Some('\u{8}'),
        'f' => Some('\u{c}'),
        'n' => Some('\n'),
        'r' => Some('\r'),
        't' => Some('\t'),
        'v' => Some('\u{b}'),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<(String, String)> {
        let environment = BTreeMap::from([("P".to_owned(), "proc".to_owned())]);
        let mut found = assignments(text);
        expand(&mut found, &environment);
        let pair = |a: Assignment| (a.name, a.value);
        found.into_iter().map(pair).collect()
    }

    /// Each row has the result of Hermes' own reader.
    #[test]
    fn assignments_in_all_their_spellings() {
        for (text, expected) in [
            ("a=b", &[("a", "b")][..]),
            ("  export a = b # note", &[("a", "b")]),
            ("a=b#c", &[("a", "b#c")]),
            ("a= # c", &[("a", "# c")]),
            ("a='x # y' # note", &[("a", "x # y")]),
            (r#"a="q\n\z\"""#, &[("a", "q\n\\z\"")]),
            (r"a='q\n\''", &[("a", r"q\n'")]),
            ("a='x'y\nb=2", &[("b", "2")]),
            ("a='x' y", &[]),
            ("a=\"x\nb=2", &[("b", "2")]),
            ("a=\"x\ny\"\nb=2", &[("a", "x\ny"), ("b", "2")]),
            ("a=\r\nb=2\r\n", &[("a", ""), ("b", "2")]),
            ("a=\n# z\nb=1", &[("a", ""), ("b", "1")]),
            ("a b=1\nc=2", &[("c", "2")]),
            ("a\nb=1", &[("b", "1")]),
            ("# a=1\n=\n'\n[section]", &[]),
            ("exporta=1", &[("exporta", "1")]),
            ("a=1\na=2", &[("a", "1"), ("a", "2")]),
            ("a=${P}", &[("a", "proc")]),
            ("a='${P}'", &[("a", "proc")]),
            ("a=$P", &[("a", "$P")]),
            ("P=own\na=${P}", &[("P", "own"), ("a", "own")]),
            ("a=${b}\nb=1", &[("a", ""), ("b", "1")]),
            ("a=${N:-d}", &[("a", "d")]),
            ("a=${N}x${", &[("a", "x${")]),
        ] {
            let expected: Vec<_> = expected
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect();
            assert_eq!(values(text), expected, "{text:?}");
        }
    }

    #[test]
    fn an_assignment_knows_its_line() {
        let found = assignments("# one\n\na=\"x\ny\"\nnonsense here\nb=1\n");
        let lines: Vec<usize> = found.iter().map(|a| a.line).collect();
        assert_eq!(lines, [3, 6]);
    }
}
