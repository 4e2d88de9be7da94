//! Metrics with two labels whose values come from fixed lists. A repeated look-up needs no hash and no lock. Unknown
//! values cannot add series.

use std::sync::OnceLock;

use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::histogram::Histogram;

/// The label value for all values that are not in the list.
pub(super) const OTHER: &str = "other";

type Labels = [(&'static str, &'static str); 2];

/// The name of a label and its values.
#[derive(Clone, Copy)]
pub(super) struct Label {
    pub(super) name: &'static str,
    pub(super) values: &'static [&'static str],
}

impl Label {
    /// The label with this value, or with [`OTHER`].
    pub(super) fn with(self, value: &str) -> (&'static str, &'static str) {
        self.at(self.index(value))
    }

    /// The index of a value. The last one is for all others.
    fn index(self, value: &str) -> usize {
        let known = self.values.iter().position(|known| *known == value);
        known.unwrap_or(self.values.len())
    }

    fn at(self, index: usize) -> (&'static str, &'static str) {
        (self.name, self.values.get(index).copied().unwrap_or(OTHER))
    }
}

/// A metric for each pair of label values, created on first use.
pub struct LabelledFamily<M, C = fn() -> M> {
    first: Label,
    second: Label,
    pub(super) family: Family<Labels, M, C>,
    series: Vec<OnceLock<M>>,
}

impl<M: Clone, C: MetricConstructor<M> + Clone> LabelledFamily<M, C> {
    pub(super) fn new(
        first: Label,
        second: Label,
        family: Family<Labels, M, C>,
    ) -> LabelledFamily<M, C> {
        let series = (first.values.len() + 1) * (second.values.len() + 1);
        LabelledFamily {
            first,
            second,
            family,
            series: (0..series).map(|_| OnceLock::new()).collect(),
        }
    }

    pub fn at(&self, first: &str, second: &str) -> &M {
        let (row, column) = (self.first.index(first), self.second.index(second));
        self.series[row * (self.second.values.len() + 1) + column].get_or_init(|| {
            let labels = [self.first.at(row), self.second.at(column)];
            self.family.get_or_create_owned(&labels)
        })
    }
}

/// Buckets from a tenth of a millisecond, for a stage of a handoff, to minutes, for an agent's answer.
pub(super) fn seconds() -> Histogram {
    Histogram::new([
        0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0,
        2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0,
    ])
}
