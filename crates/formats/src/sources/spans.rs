//! OpenTelemetry spans as OTLP JSON: one export a line, or one for the whole file.

use std::path::Path;

use advise::TraceSpan;
use serde_json::Value;

use super::{text_of, wrong};
use crate::ReadError;

/// More spans do not make a fit better.
const SPANS_MAX: usize = 2_000_000;

/// Reads all spans of an export.
///
/// # Errors
/// If a file cannot be read, or a line of it: its place and the cause.
pub fn read_spans(path: &Path) -> Result<Vec<TraceSpan>, ReadError> {
    let text = text_of(path)?;
    let mut spans = Vec::new();
    let mut stream = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
    let mut at = 0;
    loop {
        let rest = &text[at..];
        let blank = rest.len() - rest.trim_start().len();
        let line = 1 + text[..at + blank].matches('\n').count();
        let Some(value) = stream.next() else { break };
        let value = value.map_err(|error| {
            // The reader counts lines over the whole text.
            wrong(path, error.line(), format!("this JSON is broken: {error}"))
        })?;
        at = stream.byte_offset();
        export(path, line, &value, &mut spans)?;
    }
    if spans.is_empty() {
        return Err(wrong(path, 1, "there is no span; wanted is OTLP JSON with `resourceSpans`"));
    }
    Ok(spans)
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn export(
    path: &Path,
    line: usize,
    value: &Value,
    spans: &mut Vec<TraceSpan>,
) -> Result<(), ReadError> {
    if value.get("resourceSpans").is_none() {
        return Err(wrong(path, line, "this JSON has no `resourceSpans`; wanted is OTLP JSON"));
    }
    for resource in list(value, "resourceSpans") {
        let attributes = resource.get("resource").map_or(&[][..], |r| list(r, "attributes"));
        let service = attributes.iter().find_map(|attribute| {
            let is_name = attribute.get("key").and_then(Value::as_str) == Some("service.name");
            is_name
                .then(|| attribute.pointer("/value/stringValue").and_then(Value::as_str))
                .flatten()
        });
        let service = service.filter(|name| !name.trim().is_empty()).ok_or_else(|| {
            wrong(
                path,
                line,
                "a resource has no attribute `service.name`, so its spans have no place",
            )
        })?;
        for scope in list(resource, "scopeSpans") {
            for entry in list(scope, "spans") {
                spans.push(span(entry, service).map_err(|cause| wrong(path, line, cause))?);
                if spans.len() > SPANS_MAX {
                    let cause = format!("there are more than {SPANS_MAX} spans; give a part");
                    return Err(wrong(path, line, cause));
                }
            }
        }
    }
    Ok(())
}

fn span(entry: &Value, service: &str) -> Result<TraceSpan, String> {
    let text = |name: &str| {
        let found = entry.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        found.map(str::to_owned).ok_or_else(|| format!("a span has no `{name}`"))
    };
    let time = |name: &str| {
        let value = entry.get(name).ok_or_else(|| format!("a span has no `{name}`"))?;
        let number = value.as_u64().or_else(|| value.as_str()?.parse().ok());
        number.ok_or_else(|| format!("`{name}` of a span is no time in nanoseconds: {value}"))
    };
    let (start, end) = (time("startTimeUnixNano")?, time("endTimeUnixNano")?);
    if end < start {
        return Err(format!("a span ends {} ns before it begins", start - end));
    }
    // As a step of a route, `server` has a meaning of its own.
    let service = if service == "server" { "the server" } else { service };
    Ok(TraceSpan {
        trace: text("traceId")?,
        id: text("spanId")?,
        parent: text("parentSpanId").ok(),
        service: service.to_owned(),
        operation: text("name")?,
        start,
        end,
    })
}
