//! Cleans titles as Hermes does: one line without invisible characters, at most a hundred characters.

/// The longest title that Hermes accepts, in characters.
pub const LONGEST_TITLE: usize = 100;

#[derive(Debug, PartialEq, thiserror::Error)]
#[error("the title has {0} characters; at most {LONGEST_TITLE} are allowed")]
pub struct TooLong(usize);

/// The title to store. `None` if nothing remains.
pub fn clean(title: &str) -> Result<Option<String>, TooLong> {
    let visible: String = title.chars().filter(|c| !is_invisible(*c)).collect();
    let words: Vec<&str> = visible.split_whitespace().collect();
    let cleaned = words.join(" ");
    match cleaned.chars().count() {
        0 => Ok(None),
        length if length > LONGEST_TITLE => Err(TooLong(length)),
        _ => Ok(Some(cleaned)),
    }
}

/// Control characters other than white space, zero-width characters, direction marks and annotation anchors.
fn is_invisible(c: char) -> bool {
    (c.is_ascii_control() && !matches!(c, '\t' | '\n' | '\r'))
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}'
                     | '\u{feff}' | '\u{fff9}'..='\u{fffc}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_cannot_be_seen_is_left_out() {
        let kept = |title| clean(title).unwrap();
        assert_eq!(kept("  Fix\tthe \n parser "), Some("Fix the parser".into()));
        assert_eq!(kept("a\u{202e}b\u{0}c\u{feff}"), Some("abc".into()));
        assert_eq!(kept(" \u{200b}\n"), None);
        assert_eq!(clean(&"ü".repeat(100)), Ok(Some("ü".repeat(100))));
        assert_eq!(clean(&"ü".repeat(101)), Err(TooLong(101)));
    }

    proptest! {
        #[test]
        fn cleaning_twice_changes_nothing(title in "\\PC{0,120}") {
            if let Ok(Some(once)) = clean(&title) {
                prop_assert_eq!(clean(&once), Ok(Some(once.clone())));
            }
        }
    }
}
