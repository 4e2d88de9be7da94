//! Converts text to the markup of man(7).

/// The longest line of a page's source.
const WIDTH: usize = 78;

/// Appends a character so that it is shown as it is.
fn shown(c: char, out: &mut String) {
    match c {
        '\\' => out.push_str("\\e"),
        c if c.is_ascii() => out.push(c),
        c => out.push_str(&format!("\\[u{:04X}]", c as u32)),
    }
}

/// A word that the reader types literally. Its hyphens become minus signs.
pub(super) fn literal(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '-' => out.push_str("\\-"),
            '\'' => out.push_str("\\(aq"),
            '`' => out.push_str("\\(ga"),
            '^' => out.push_str("\\(ha"),
            '~' => out.push_str("\\(ti"),
            c => shown(c, &mut out),
        }
    }
    guarded(out)
}

/// Protects a line that begins with a dot or an apostrophe, which would be a request of man(7).
fn guarded(line: String) -> String {
    if line.starts_with(['.', '\'']) {
        format!("\\&{line}")
    } else {
        line
    }
}

/// Puts each sentence on its own line. Text between backticks is literal.
pub(super) fn prose(text: &str) -> String {
    let mut out = String::new();
    for (n, piece) in text.split('`').enumerate() {
        if n % 2 == 1 {
            // No hyphenation: a hyphen at the end of a line would spoil a copied name.
            out.push_str(&format!("\\fB\\%{}\\fP", literal(piece)));
            continue;
        }
        let piece = piece.replace("...", "\\&...").replace('…', "...");
        let mut rest = piece.chars().peekable();
        let mut before = ' ';
        while let Some(c) = rest.next() {
            match c {
                ' ' if before == '.'
                    && rest.peek().is_some_and(|next| next.is_ascii_uppercase()) =>
                {
                    out.push('\n');
                }
                '\\' if rest.peek() == Some(&'&') => out.push('\\'),
                '~' => out.push_str("\\(ti"),
                // An option in the middle of a sentence.
                '-' if rest.peek() == Some(&'-') || before == '-' => out.push_str("\\-"),
                c => shown(c, &mut out),
            }
            before = c;
        }
    }
    let lines = out.lines().flat_map(wrapped).map(guarded);
    let mut text = lines.collect::<Vec<_>>().join("\n");
    if !text.is_empty() {
        text.push('\n');
    }
    text
}

/// Wraps a line of the source.
fn wrapped(line: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in line.split(' ') {
        let last = lines.last_mut().expect("a line");
        if last.is_empty() {
            last.push_str(word);
        } else if last.len() + 1 + word.len() <= WIDTH {
            last.push(' ');
            last.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// Like [`prose`], with a full stop at the end, which clap removes.
pub(super) fn sentence(text: &str) -> String {
    let text = text.trim_end();
    match text.chars().last() {
        None | Some('.' | '?' | '!' | ':') => prose(text),
        Some(_) => prose(&format!("{text}.")),
    }
}

/// Lines that are shown literally.
pub(super) fn example(lines: &[&str]) -> String {
    let shown: Vec<String> = lines.iter().map(|line| literal(line)).collect();
    format!(".PP\n.RS 4\n.EX\n{}\n.EE\n.RE\n", shown.join("\n"))
}
