//! A reader of Prometheus' text format that forgives nothing.

use std::collections::{BTreeMap, BTreeSet};

/// Every sample by its name and labels, as they were written but in order.
#[derive(Debug)]
pub struct Scrape(BTreeMap<String, f64>);

impl Scrape {
    /// The value of a series; nothing counted is nothing.
    pub fn value(&self, series: &str) -> f64 {
        let (name, labels) = split(series);
        let key = key(name, &labels);
        self.0.get(&key).copied().unwrap_or_default()
    }

    pub fn names(&self) -> BTreeSet<&str> {
        self.0.keys().map(|key| split(key).0).collect()
    }
}

fn is_name(name: &str) -> bool {
    let proper = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.chars().all(proper) && !name.starts_with(|c: char| c.is_ascii_digit()) && !name.is_empty()
}

fn split(series: &str) -> (&str, Vec<(String, String)>) {
    let Some((name, rest)) = series.split_once('{') else {
        return (series, Vec::new());
    };
    let mut rest = rest.strip_suffix('}').expect("a closing brace");
    let mut labels = Vec::new();
    while !rest.is_empty() {
        let (label, after) = rest.split_once("=\"").expect("a value in quotes");
        assert!(is_name(label), "{label:?} in {series}");
        let (value, after) = after.split_once('"').expect("a closing quote");
        assert!(!value.contains('\\'), "no label of ours has that: {series}");
        labels.push((label.to_owned(), value.to_owned()));
        rest = match after.strip_prefix(',') {
            Some(more) => {
                assert!(!more.is_empty(), "a comma at the end of {series}");
                more
            }
            None => {
                assert_eq!(after, "", "{series}");
                after
            }
        };
    }
    (name, labels)
}

fn key(name: &str, labels: &[(String, String)]) -> String {
    let mut labels = labels.to_vec();
    labels.sort();
    let before = labels.len();
    labels.dedup_by(|a, b| a.0 == b.0);
    assert_eq!(labels.len(), before, "a label twice: {name} {labels:?}");
    let pairs: Vec<_> = labels.iter().map(|(n, v)| format!("{n}={v:?}")).collect();
    match pairs.is_empty() {
        true => name.to_owned(),
        false => format!("{name}{{{}}}", pairs.join(",")),
    }
}

fn number(text: &str) -> f64 {
    match text {
        "+Inf" => f64::INFINITY,
        _ => text.parse().unwrap_or_else(|_| panic!("no number: {text}")),
    }
}

/// Reads it all, or says what is wrong with it.
pub fn read(text: &str) -> Scrape {
    assert!(text.ends_with('\n'), "the last line has no end");
    let mut samples = BTreeMap::new();
    let (mut family, mut kind, mut seen) = (String::new(), String::new(), BTreeSet::new());
    // What is left to check of histograms: series without `le`, the last bound and count.
    let mut buckets: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').expect("help");
            assert!(is_name(name) && !help.is_empty() && seen.insert(name.to_owned()));
            (family, kind) = (name.to_owned(), String::new());
            continue;
        }
        if let Some(of) = line.strip_prefix("# TYPE ") {
            let (name, what) = of.split_once(' ').expect("a type");
            assert!(name == family && kind.is_empty(), "{line}");
            assert!(["counter", "gauge", "histogram"].contains(&what), "{line}");
            assert_eq!(what == "counter", name.ends_with("_total"), "{line}");
            kind = what.to_owned();
            continue;
        }
        assert!(!line.starts_with('#') && !line.is_empty(), "{line:?}");
        let (series, value) = line.rsplit_once(' ').expect("a value");
        let (name, labels) = split(series);
        let value = number(value);
        assert!(kind == "gauge" || value >= 0.0, "{line}");
        let ending = name.strip_prefix(&family).expect("its family before it");
        match kind.as_str() {
            "histogram" => assert!(["_sum", "_count", "_bucket"].contains(&ending), "{line}"),
            "counter" | "gauge" => assert_eq!(ending, "", "{line}"),
            _ => panic!("no type before {line}"),
        }
        if kind == "histogram" {
            let (le, others): (Vec<_>, Vec<_>) = labels.iter().cloned().partition(|l| l.0 == "le");
            let series = key(&family, &others);
            match ending {
                "_bucket" => {
                    let le = number(&le.first().expect("a bound").1);
                    let (bound, count) = buckets.entry(series).or_insert((-1.0, 0.0));
                    assert!(le > *bound && value >= *count, "{line}");
                    (*bound, *count) = (le, value);
                }
                "_count" => {
                    samples.insert(format!("count of {series}"), value);
                }
                _ => assert!(le.is_empty()),
            }
        }
        let old = samples.insert(key(name, &labels), value);
        assert_eq!(old, None, "{series} twice");
    }
    for (series, (bound, count)) in buckets {
        assert_eq!(bound, f64::INFINITY, "{series} has no end");
        let counted = samples.remove(&format!("count of {series}"));
        assert_eq!(counted, Some(count), "{series}");
    }
    Scrape(samples)
}
