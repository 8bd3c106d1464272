use crate::addr::Addr;
use crate::analysis::naming::{Code, Names};
use crate::report::{Ip2MethodReport, IpRow, VersionRow};
use crate::session::Session;

/// Tell what code each of `ips` is of.
pub fn ip2method(session: &Session<'_>, ips: &[Addr]) -> Ip2MethodReport {
    let names = Names::new(session);
    let results = ips.iter().map(|&ip| row(&names, ip)).collect();
    names.note_missing();
    Ip2MethodReport { results }
}

fn row(names: &Names<'_, '_>, ip: Addr) -> IpRow {
    let (methods, method) = match names.code(ip) {
        Code::Managed(methods, method) => (methods, method),
        other => {
            return IpRow { ip, reason: Some(names.explain(ip, &other)), ..IpRow::default() };
        }
    };
    let versions = methods.versions(&method);
    let tier = versions.iter().find(|v| v.code == method.start).map(|v| v.tier);
    let in_cold = method.cold.is_some_and(|(start, size)| ip >= start && ip.since(start) < size);
    let place = names.source(methods, &method, ip);
    let class = method.desc.as_ref().and_then(|d| methods.types.ee_class(d.method_table).ok());
    let module = &method.module;
    let il_address = module.il_address(method.token.rid());
    IpRow {
        ip,
        found: true,
        method: Some(method.name.clone()),
        offset: (!in_cold).then(|| ip.since(method.start)),
        method_desc: method.desc.as_ref().map(|d| d.addr),
        class,
        method_table: method.desc.as_ref().map(|d| d.method_table),
        token: Some(method.token.to_string()),
        module: Some(module.name().into_owned()),
        module_path: (!module.path.is_empty()).then(|| module.path.clone()),
        module_address: Some(module.addr),
        code_start: Some(method.start),
        code_size: Some(method.size),
        cold_start: method.cold.map(|c| c.0),
        cold_size: method.cold.map(|c| c.1),
        tier,
        jitted: Some(method.jitted),
        il_offset: place.il_offset,
        file: place.file,
        line: place.line,
        versions: versions
            .into_iter()
            .map(|v| VersionRow {
                code: (!v.code.is_null()).then_some(v.code),
                tier: v.tier,
                node: (!v.node.is_null()).then_some(v.node),
                il_version: v.il_version,
                il_address: if v.il_version == 0 { il_address } else { None },
            })
            .collect(),
        reason: None,
        note: module
            .missing
            .as_ref()
            .map(|why| format!("no metadata of {}: {why}; give the program's files with --symbols", module.name())),
    }
}
