//! Links, and images, which are shown as links.

use std::rc::Rc;

use pulldown_cmark::LinkType;

/// The schemes that Telegram opens.
const SCHEMES: [&str; 4] = ["http", "https", "mailto", "tg"];

pub(super) struct Link {
    pub(super) target: Rc<str>,
    /// Whether it becomes a link; else its target is shown behind it.
    pub(super) opens: bool,
    /// The text that there is so far.
    pub(super) label: String,
}

impl Link {
    pub(super) fn new(kind: LinkType, target: &str, may_open: bool) -> Link {
        let scheme = target.split_once(':').map_or("", |(scheme, _)| scheme);
        let is_known = SCHEMES.iter().any(|s| s.eq_ignore_ascii_case(scheme));
        Link {
            target: target.into(),
            // Telegram finds bare addresses of mail by itself.
            opens: is_known && may_open && kind != LinkType::Email,
            label: String::new(),
        }
    }

    /// What has to follow the label to say where the link leads.
    pub(super) fn missing(&self) -> Option<String> {
        let label = self.label.trim();
        let target = &*self.target;
        let names_target = label == target || target.strip_prefix("mailto:") == Some(label);
        if label.is_empty() {
            return Some(target.to_owned());
        }
        let is_missing = !self.opens && !names_target && !target.is_empty();
        is_missing.then(|| format!(" ({target})"))
    }
}
