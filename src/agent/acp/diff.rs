//! Shows a change of a file in the unified diff format.

/// The number of unchanged lines shown around a change.
const CONTEXT: usize = 3;
/// Texts with more pairs of lines are not compared line by line. Their difference is shown as one change.
const MOST_PAIRS: usize = 4_000_000;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Line<'a> {
    Same(&'a str),
    Gone(&'a str),
    New(&'a str),
}

/// Without an old text, the file is new.
pub(super) fn unified(path: &str, old: Option<&str>, new: &str) -> String {
    let from = if old.is_some() { path } else { "/dev/null" };
    let mut text = format!("--- {from}\n+++ {path}");
    let lines = compare(&split(old.unwrap_or_default()), &split(new));
    let (mut old_line, mut new_line, mut at) = (1, 1, 0);
    while at < lines.len() {
        let Some(hunk) = next_hunk(&lines, at) else {
            break;
        };
        for line in &lines[at..hunk.start] {
            count(line, &mut old_line, &mut new_line);
        }
        let (old_start, new_start) = (old_line, new_line);
        let mut body = String::new();
        for line in &lines[hunk.clone()] {
            count(line, &mut old_line, &mut new_line);
            let (mark, line) = match line {
                Line::Same(line) => (' ', line),
                Line::Gone(line) => ('-', line),
                Line::New(line) => ('+', line),
            };
            body.push_str(&format!("\n{mark}{line}"));
        }
        text.push_str(&format!(
            "\n@@ -{old_start},{} +{new_start},{} @@{body}",
            old_line - old_start,
            new_line - new_start
        ));
        at = hunk.end;
    }
    text
}

fn count(line: &Line<'_>, old: &mut usize, new: &mut usize) {
    *old += usize::from(!matches!(line, Line::New(_)));
    *new += usize::from(!matches!(line, Line::Gone(_)));
}

/// The next change with its context. Changes whose contexts touch are one hunk.
fn next_hunk(lines: &[Line<'_>], from: usize) -> Option<std::ops::Range<usize>> {
    let changed = |line: &Line<'_>| !matches!(line, Line::Same(_));
    let first = from + lines[from..].iter().position(changed)?;
    let mut end = first + 1;
    while let Some(next) = lines[end..].iter().take(2 * CONTEXT + 1).position(changed) {
        end += next + 1;
    }
    Some(first.saturating_sub(CONTEXT).max(from)..(end + CONTEXT).min(lines.len()))
}

fn split(text: &str) -> Vec<&str> {
    match text.strip_suffix('\n').unwrap_or(text) {
        "" if text.is_empty() => Vec::new(),
        text => text.split('\n').collect(),
    }
}

/// Finds the longest common subsequence. Equal lines at both ends are not part of the search.
fn compare<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Line<'a>> {
    let same = |(a, b): &(&&str, &&str)| a == b;
    let head = old.iter().zip(new).take_while(same).count();
    let rest = old.len().min(new.len()) - head;
    let tail = old.iter().rev().zip(new.iter().rev());
    let tail = tail.take(rest).take_while(same).count();
    let (before, after) = (&old[head..old.len() - tail], &new[head..new.len() - tail]);
    let mut lines: Vec<Line<'a>> = old[..head].iter().map(|line| Line::Same(line)).collect();
    lines.extend(middle(before, after));
    lines.extend(old[old.len() - tail..].iter().map(|line| Line::Same(line)));
    lines
}

fn middle<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Line<'a>> {
    let gone = old.iter().map(|line| Line::Gone(line));
    if old.len().saturating_mul(new.len()) > MOST_PAIRS {
        return gone.chain(new.iter().map(|line| Line::New(line))).collect();
    }
    let width = new.len() + 1;
    let mut common = vec![0_u32; (old.len() + 1) * width];
    for a in (0..old.len()).rev() {
        for b in (0..new.len()).rev() {
            common[a * width + b] = match old[a] == new[b] {
                true => common[(a + 1) * width + b + 1] + 1,
                false => common[(a + 1) * width + b].max(common[a * width + b + 1]),
            };
        }
    }
    let (mut lines, mut a, mut b) = (Vec::new(), 0, 0);
    while a < old.len() && b < new.len() {
        if old[a] == new[b] {
            lines.push(Line::Same(old[a]));
            (a, b) = (a + 1, b + 1);
        } else if common[(a + 1) * width + b] >= common[a * width + b + 1] {
            lines.push(Line::Gone(old[a]));
            a += 1;
        } else {
            lines.push(Line::New(new[b]));
            b += 1;
        }
    }
    lines.extend(old[a..].iter().map(|line| Line::Gone(line)));
    lines.extend(new[b..].iter().map(|line| Line::New(line)));
    lines
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_change_is_shown_with_the_lines_around_it() {
        let old: String = (1..=20).map(|n| format!("{n}\n")).collect();
        let new = old.replace("5\n6\n", "five\n6\n").replace("18\n", "");
        let shown = "--- /f\n+++ /f\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n@@ -15,6 +15,5 @@\n 15\n 16\n 17\n-18\n 19\n 20";
        assert_eq!(unified("/f", Some(&old), &new), shown);
        let created = "--- /dev/null\n+++ /f\n@@ -1,0 +1,2 @@\n+a\n+b";
        assert_eq!(unified("/f", None, "a\nb\n"), created);
        assert_eq!(unified("/f", Some("a"), "a"), "--- /f\n+++ /f");
    }

    proptest! {
        /// The result contains every line of both texts, in order.
        #[test]
        fn both_texts_can_be_read_out_of_the_lines(
            old in prop::collection::vec("[ab]", 0..12),
            new in prop::collection::vec("[ab]", 0..12),
        ) {
            let old: Vec<&str> = old.iter().map(String::as_str).collect();
            let new: Vec<&str> = new.iter().map(String::as_str).collect();
            let lines = compare(&old, &new);
            let read = |is: fn(&Line<'_>) -> bool| -> Vec<&str> {
                let lines = lines.iter().filter(|line| is(line));
                lines.map(|(Line::Same(line) | Line::Gone(line) | Line::New(line))| *line).collect()
            };
            prop_assert_eq!(read(|line| !matches!(line, Line::New(_))), old);
            prop_assert_eq!(read(|line| !matches!(line, Line::Gone(_))), new);
        }
    }
}
