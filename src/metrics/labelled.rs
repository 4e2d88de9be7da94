//! Counters with two labels whose values are known beforehand: looking one up again costs no hash and no lock, and nobody
//! outside can make the lists longer.

use std::sync::OnceLock;

use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::histogram::Histogram;

/// What stands for every value that is not in its list.
pub(super) const OTHER: &str = "other";

type Labels = [(&'static str, &'static str); 2];

/// One label: its name and what it may say.
#[derive(Clone, Copy)]
pub(super) struct Label {
    pub(super) name: &'static str,
    pub(super) values: &'static [&'static str],
}

impl Label {
    /// The label with this value, or the one for all others.
    pub(super) fn with(self, value: &str) -> (&'static str, &'static str) {
        self.at(self.place(value))
    }

    /// The place of a value; the last is for all others.
    fn place(self, value: &str) -> usize {
        let known = self.values.iter().position(|known| *known == value);
        known.unwrap_or(self.values.len())
    }

    fn at(self, place: usize) -> (&'static str, &'static str) {
        (self.name, self.values.get(place).copied().unwrap_or(OTHER))
    }
}

pub struct Grid<M, C = fn() -> M> {
    first: Label,
    second: Label,
    pub(super) family: Family<Labels, M, C>,
    cells: Vec<OnceLock<M>>,
}

impl<M: Clone, C: MetricConstructor<M> + Clone> Grid<M, C> {
    pub(super) fn new(first: Label, second: Label, family: Family<Labels, M, C>) -> Grid<M, C> {
        let cells = (first.values.len() + 1) * (second.values.len() + 1);
        Grid {
            first,
            second,
            family,
            cells: (0..cells).map(|_| OnceLock::new()).collect(),
        }
    }

    pub fn at(&self, first: &str, second: &str) -> &M {
        let (row, column) = (self.first.place(first), self.second.place(second));
        self.cells[row * (self.second.values.len() + 1) + column].get_or_init(|| {
            let labels = [self.first.at(row), self.second.at(column)];
            self.family.get_or_create_owned(&labels)
        })
    }
}

/// Seconds from a tenth of a millisecond to minutes: a stage of a handoff takes the one, an agent's answer the other.
pub(super) fn seconds() -> Histogram {
    Histogram::new([
        0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0,
        2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0,
    ])
}
