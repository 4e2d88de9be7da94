//! The numbers and how they are shown: samples and their percentiles, a table for people, JSON for programs.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::{Outcome, Scale};

/// Times of the same thing done again and again.
#[derive(Default)]
pub(crate) struct Samples {
    milliseconds: Vec<f64>,
}

impl Samples {
    pub(crate) fn add(&mut self, time: Duration) {
        self.milliseconds.push(time.as_secs_f64() * 1000.0);
    }

    pub(crate) fn p50(&self) -> f64 {
        self.percentile(0.50)
    }

    pub(crate) fn p99(&self) -> f64 {
        self.percentile(0.99)
    }

    /// The smallest value that so many of all do not exceed.
    fn percentile(&self, share: f64) -> f64 {
        let mut sorted = self.milliseconds.clone();
        sorted.sort_by(f64::total_cmp);
        let rank = (sorted.len() as f64 * share).ceil() as usize;
        let at = rank.saturating_sub(1);
        sorted.get(at).copied().unwrap_or(f64::NAN)
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Unit {
    Milliseconds,
    Megabytes,
    Percent,
    Ratio,
}

impl Unit {
    fn symbol(self) -> &'static str {
        match self {
            Unit::Milliseconds => "ms",
            Unit::Megabytes => "MB",
            Unit::Percent => "%",
            Unit::Ratio => "x",
        }
    }
}

struct Row {
    metric: String,
    unit: Unit,
    measured: f64,
    /// Has to stay below this; `None` is for information only.
    budget: Option<f64>,
}

impl Row {
    fn is_ok(&self) -> Option<bool> {
        self.budget.map(|budget| self.measured < budget)
    }

    fn to_json(&self) -> Value {
        json!({
            "metric": self.metric,
            "measured": (self.measured * 1000.0).round() / 1000.0,
            "unit": self.unit.symbol(),
            "budget": self.budget,
            "ok": self.is_ok(),
        })
    }
}

pub(crate) struct Report {
    scale: Scale,
    quick: bool,
    rows: Vec<Row>,
}

impl Report {
    pub(crate) fn new(scale: &Scale, quick: bool) -> Report {
        Report {
            scale: *scale,
            quick,
            rows: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, metric: String, unit: Unit, measured: f64, budget: Option<f64>) {
        self.rows.push(Row {
            metric,
            unit,
            measured,
            budget,
        });
    }

    pub(crate) fn print(&self) {
        let Scale {
            sessions,
            handoffs,
            burst,
            messages,
            ..
        } = self.scale;
        if self.quick {
            println!("\nquick: a look whether it works; the budget is meant for the full scale");
        }
        println!(
            "\nmany sessions: {sessions}; many handoffs: {handoffs} past ones; burst: {burst}; transcript: {messages} messages\n"
        );
        let width = self.rows.iter().map(|row| row.metric.len()).max();
        let width = width.unwrap_or_default();
        println!("{:<width$}  {:>11}  {:>11}", "metric", "measured", "budget");
        for row in &self.rows {
            let unit = row.unit.symbol();
            let measured = format!("{:.2} {unit:<2}", row.measured);
            let budget = row.budget.map(|budget| format!("< {budget} {unit:<2}"));
            let verdict = match row.is_ok() {
                Some(true) => "ok",
                Some(false) => "over",
                None => "",
            };
            let line = format!(
                "{:<width$}  {measured:>11}  {:>11}  {verdict}",
                row.metric,
                budget.unwrap_or_default()
            );
            println!("{}", line.trim_end());
        }
    }

    pub(crate) fn write(&self, path: &Path) -> Outcome<()> {
        let report = json!({
            "version": hermesd::VERSION,
            "quick": self.quick,
            "debug_build": cfg!(debug_assertions),
            "cores": std::thread::available_parallelism()?.get(),
            "scale": {
                "sessions": self.scale.sessions,
                "handoffs": self.scale.handoffs,
                "burst": self.scale.burst,
                "messages": self.scale.messages,
            },
            "rows": self.rows.iter().map(Row::to_json).collect::<Vec<_>>(),
        });
        std::fs::write(path, format!("{report:#}\n"))
            .map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(())
    }
}
