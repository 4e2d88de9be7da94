//! Reads and formats wall-clock time in the two forms that `state.db` stores: epoch seconds and local ISO 8601.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Seconds since the epoch, as Hermes writes them into its REAL columns.
pub fn now() -> f64 {
    let now = Timestamp::now();
    now.as_microsecond() as f64 / 1e6
}

/// Local time without an offset, as routing entries carry it (`2026-01-31T08:15:00.123456`).
pub fn iso_local(epoch: f64) -> String {
    zoned(epoch).strftime("%Y-%m-%dT%H:%M:%S.%6f").to_string()
}

/// Parses an ISO 8601 time. Without an offset, it is local time.
pub fn parse_iso(text: &str) -> Option<f64> {
    let time = text.parse::<Timestamp>().ok().or_else(|| {
        let local: jiff::civil::DateTime = text.parse().ok()?;
        Some(local.to_zoned(TimeZone::system()).ok()?.timestamp())
    })?;
    Some(time.as_microsecond() as f64 / 1e6)
}

/// Local date and time for a person (`2026-01-31 08:15:00`).
pub fn readable(epoch: f64) -> String {
    zoned(epoch).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// Local time of day for a person (`08:15`).
pub fn hour(epoch: f64) -> String {
    zoned(epoch).strftime("%H:%M").to_string()
}

/// A new session id in Hermes' form: `20260131_081500_a1b2c3`.
pub fn session_id(epoch: f64) -> String {
    let stamp = zoned(epoch).strftime("%Y%m%d_%H%M%S").to_string();
    format!("{stamp}_{:06x}", fastrand::u32(..0x0100_0000))
}

/// How long something took (`12 ms`, `27.8 s`, `2 min 5 s`).
pub fn took(seconds: f64) -> String {
    let ms = (seconds.max(0.0) * 1000.0).round();
    match ms as u64 {
        ms @ 0..=999 => format!("{ms} ms"),
        ms @ 1000..=59_949 => format!("{:.1} s", ms as f64 / 1000.0),
        ms => {
            let s = (ms + 500) / 1000;
            format!("{} min {} s", s / 60, s % 60)
        }
    }
}

/// A duration in its coarsest unit (`5 s`, `3 min`, `2 h`, `4 d`).
pub fn age(seconds: f64) -> String {
    let s = seconds.max(0.0) as u64;
    match s {
        0..=59 => format!("{s} s"),
        60..=3599 => format!("{} min", s / 60),
        3600..=86_399 => format!("{} h", s / 3600),
        _ => format!("{} d", s / 86_400),
    }
}

fn zoned(epoch: f64) -> jiff::Zoned {
    let micros = (epoch * 1e6) as i64;
    Timestamp::from_microsecond(micros)
        .unwrap_or(Timestamp::UNIX_EPOCH)
        .to_zoned(TimeZone::system())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_id_has_hermes_form() {
        let id = session_id(now());
        let parts: Vec<&str> = id.split('_').collect();
        assert_eq!([8, 6, 6], [parts[0].len(), parts[1].len(), parts[2].len()]);
    }

    #[test]
    fn iso_times_are_read_with_and_without_an_offset() {
        assert_eq!(parse_iso("1970-01-01T00:01:00.5Z"), Some(60.5));
        assert_eq!(parse_iso("1970-01-01 01:01:00+01:00"), Some(60.0));
        assert_eq!(parse_iso(&iso_local(1.75e9)), Some(1.75e9));
        assert_eq!(parse_iso("yesterday"), None);
    }

    #[test]
    fn ages_use_the_coarsest_unit() {
        assert_eq!(
            ["59 s", "1 min", "2 h", "3 d"],
            [59.9, 60.0, 7300.0, 260_000.0]
                .map(age)
                .each_ref()
                .map(String::as_str)
        );
    }

    #[test]
    fn what_took_long_is_told_in_seconds_and_minutes() {
        for (seconds, words) in [
            (-1.0, "0 ms"),
            (0.0124, "12 ms"),
            (0.9996, "1.0 s"),
            (27.84, "27.8 s"),
            (59.96, "1 min 0 s"),
            (125.4, "2 min 5 s"),
        ] {
            assert_eq!(took(seconds), words, "{seconds}");
        }
    }

    #[test]
    fn absurd_times_do_not_panic() {
        iso_local(f64::MAX);
        iso_local(f64::NAN);
        readable(-1e18);
    }
}
