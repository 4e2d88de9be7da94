//! Writes and parses Prometheus' text format. The library writes OpenMetrics, which not every collector reads, so the
//! text is converted.

use std::collections::BTreeMap;

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use serde::Serialize;

pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(super) fn of(registry: &Registry) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = encode(&mut text, registry);
    classic(&text)
}

/// Converts from OpenMetrics. There, the name of a counter's family lacks `_total`, that of an info lacks `_info`, and
/// the text ends with `# EOF`.
fn classic(text: &str) -> String {
    let mut classic = String::with_capacity(text.len());
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let Some((name, help)) = words_after(line, "# HELP ") else {
            if !line.starts_with("# ") {
                classic.push_str(line);
                classic.push('\n');
            }
            continue;
        };
        let kind = lines.next_if(|next| next.starts_with("# TYPE "));
        let kind = kind.and_then(|line| words_after(line, "# TYPE "));
        let (ending, kind) = match kind.map_or("untyped", |(_, kind)| kind) {
            "counter" => ("_total", "counter"),
            "info" => ("_info", "gauge"),
            "unknown" => ("", "untyped"),
            kind => ("", kind),
        };
        classic.push_str(&format!(
            "# HELP {name}{ending} {help}\n# TYPE {name}{ending} {kind}\n"
        ));
    }
    classic
}

fn words_after<'a>(line: &'a str, mark: &str) -> Option<(&'a str, &'a str)> {
    line.strip_prefix(mark)?.split_once(' ')
}

/// A family of metrics as JSON.
#[derive(Debug, Default, PartialEq, Serialize)]
pub struct FamilyView {
    #[serde(rename = "type")]
    pub kind: String,
    pub help: String,
    pub samples: Vec<SampleView>,
}

#[derive(Debug, PartialEq, Serialize)]
pub struct SampleView {
    /// The name of the family, for a histogram with its suffix.
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub value: f64,
}

/// The families of a text by name. Parses only the output of [`of`], whose label values contain no quotes or commas.
pub fn families(text: &str) -> BTreeMap<String, FamilyView> {
    let mut families: BTreeMap<String, FamilyView> = BTreeMap::new();
    let mut current = String::new();
    for line in text.lines() {
        if let Some((name, help)) = words_after(line, "# HELP ") {
            current = name.to_owned();
            families.entry(current.clone()).or_default().help = help.to_owned();
        } else if let Some((_, kind)) = words_after(line, "# TYPE ") {
            families.entry(current.clone()).or_default().kind = kind.to_owned();
        } else if let Some(sample) = sample(line) {
            let family = families.entry(current.clone()).or_default();
            family.samples.push(sample);
        }
    }
    families
}

fn sample(line: &str) -> Option<SampleView> {
    let (series, value) = line.rsplit_once(' ')?;
    let (name, labels) = match series.split_once('{') {
        Some((name, labels)) => (name, labels.strip_suffix('}')?),
        None => (series, ""),
    };
    let label = |pair: &str| {
        let (name, value) = pair.split_once('=')?;
        Some((name.to_owned(), value.trim_matches('"').to_owned()))
    };
    Some(SampleView {
        name: name.to_owned(),
        labels: labels.split(',').filter_map(label).collect(),
        value: value.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_younger_format_becomes_the_older() {
        let text = "# HELP a_b Things.\n# TYPE a_b counter\na_b_total{x=\"1\"} 2\n\
                    # HELP c Build.\n# TYPE c info\nc_info{v=\"0\"} 1\n\
                    # HELP d_seconds Time.\n# TYPE d_seconds histogram\n# UNIT d_seconds seconds\nd_seconds_sum 0.5\n# EOF\n";
        assert_eq!(
            classic(text),
            "# HELP a_b_total Things.\n# TYPE a_b_total counter\na_b_total{x=\"1\"} 2\n\
             # HELP c_info Build.\n# TYPE c_info gauge\nc_info{v=\"0\"} 1\n\
             # HELP d_seconds Time.\n# TYPE d_seconds histogram\nd_seconds_sum 0.5\n"
        );
        let families = families(&classic(text));
        assert_eq!(families["a_b_total"].kind, "counter");
        assert_eq!(families["a_b_total"].samples[0].labels["x"], "1");
        assert_eq!(families["d_seconds"].samples[0].name, "d_seconds_sum");
    }
}
