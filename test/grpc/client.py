"""A gRPC client that shares nothing with svc: C core, Google's protobuf, and no file of proto/.

Discovers the services by reflection, calls each of them, and prints the results as one JSON object.
Usage: client.py HOST:PORT EMBEDDING_MODEL
"""

import json
import sys
import time

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

STRING, BYTES, INT32, MESSAGE = 9, 12, 5, 11
OPTIONAL, REPEATED = 1, 3
WAIT = 20

pool = descriptor_pool.DescriptorPool()


def message_class(name):
    return message_factory.MessageFactory(pool).GetPrototype(pool.FindMessageTypeByName(name))


def declare(package, messages):
    """`messages`: name to fields; a field is (number, name, type or message's name, label)."""
    file = descriptor_pb2.FileDescriptorProto(name=package + ".proto", package=package, syntax="proto3")
    for name, fields in messages.items():
        declared = file.message_type.add(name=name)
        for number, field, kind, label in fields:
            added = declared.field.add(name=field, number=number, label=label)
            if isinstance(kind, str):
                added.type, added.type_name = MESSAGE, f".{package}.{kind}"
            else:
                added.type = kind
    pool.Add(file)


def declare_what_is_known():
    """Declares the parts of grpc.reflection.v1 and google.rpc that are used here; they are not part of svc."""
    declare(
        "grpc.reflection.v1",
        {
            "ServerReflectionRequest": [(1, "host", STRING, OPTIONAL), (4, "file_containing_symbol", STRING, OPTIONAL), (7, "list_services", STRING, OPTIONAL)],
            "FileDescriptorResponse": [(1, "file_descriptor_proto", BYTES, REPEATED)],
            "ServiceResponse": [(1, "name", STRING, OPTIONAL)],
            "ListServiceResponse": [(1, "service", "ServiceResponse", REPEATED)],
            "ErrorResponse": [(1, "error_code", INT32, OPTIONAL), (2, "error_message", STRING, OPTIONAL)],
            "ServerReflectionResponse": [
                (4, "file_descriptor_response", "FileDescriptorResponse", OPTIONAL),
                (6, "list_services_response", "ListServiceResponse", OPTIONAL),
                (7, "error_response", "ErrorResponse", OPTIONAL),
            ],
        },
    )
    declare(
        "google.rpc",
        {
            "Any": [(1, "type_url", STRING, OPTIONAL), (2, "value", BYTES, OPTIONAL)],
            "Status": [(1, "code", INT32, OPTIONAL), (2, "message", STRING, OPTIONAL), (3, "details", "Any", REPEATED)],
            "Pair": [(1, "key", STRING, OPTIONAL), (2, "value", STRING, OPTIONAL)],
            "ErrorInfo": [(1, "reason", STRING, OPTIONAL), (2, "domain", STRING, OPTIONAL), (3, "metadata", "Pair", REPEATED)],
        },
    )


def reflect(channel, **question):
    request = message_class("grpc.reflection.v1.ServerReflectionRequest")
    response = message_class("grpc.reflection.v1.ServerReflectionResponse")
    call = channel.stream_stream(
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        request_serializer=lambda value: value.SerializeToString(),
        response_deserializer=response.FromString,
    )
    return next(call(iter([request(**question)]), timeout=WAIT))


def learn(channel, symbol):
    answer = reflect(channel, file_containing_symbol=symbol)
    if not answer.file_descriptor_response.file_descriptor_proto:
        raise RuntimeError(f"{symbol}: {answer.error_response}")
    files = [descriptor_pb2.FileDescriptorProto.FromString(each) for each in answer.file_descriptor_response.file_descriptor_proto]
    waiting = {file.name: file for file in files}

    def add(file):
        for name in file.dependency:
            if name in waiting:
                add(waiting.pop(name))
        try:
            pool.FindFileByName(file.name)
        except KeyError:
            pool.Add(file)

    while waiting:
        add(waiting.popitem()[1])


def stub(channel, service, name):
    method = pool.FindServiceByName(service).methods_by_name[name]
    make = channel.unary_stream if method.server_streaming else channel.unary_unary
    request = message_class(method.input_type.full_name)
    call = make(
        f"/{service}/{name}",
        request_serializer=lambda value: value.SerializeToString(),
        response_deserializer=message_class(method.output_type.full_name).FromString,
    )
    return lambda timeout=WAIT, **fields: call(request(**fields), timeout=timeout)


def record(message):
    """Returns the message as a dictionary, with None for absent fields."""
    result = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        is_message = field.type == MESSAGE
        if field.label == REPEATED:
            result[field.name] = [record(each) for each in value] if is_message else list(value)
        elif (is_message or field.containing_oneof) and not message.HasField(field.name):
            result[field.name] = None
        else:
            result[field.name] = record(value) if is_message else value
    return result


def refusal(error):
    trailers = dict(error.trailing_metadata() or ())
    told = {"status": error.code().name, "message": error.details()}
    if "grpc-status-details-bin" in trailers:
        status = message_class("google.rpc.Status").FromString(trailers["grpc-status-details-bin"])
        told["details_code"] = status.code
        for detail in status.details:
            if detail.type_url == "type.googleapis.com/google.rpc.ErrorInfo":
                info = message_class("google.rpc.ErrorInfo").FromString(detail.value)
                told["reason"], told["domain"], told["metadata"] = info.reason, info.domain, {pair.key: pair.value for pair in info.metadata}
    return told


def refused(call):
    try:
        for _ in call:
            pass
        return "it was answered"
    except grpc.RpcError as error:
        return refusal(error)


def main(address, embedding_model):
    seen = {}
    channel = grpc.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)])
    declare_what_is_known()
    seen["services"] = sorted(each.name for each in reflect(channel, list_services="*").list_services_response.service)
    for symbol in ["grpc.health.v1.Health", "svc.v1.Runtime", "svc.v1.Inference"]:
        learn(channel, symbol)

    check = stub(channel, "grpc.health.v1.Health", "Check")
    seen["check"] = {name: check(service=name).status for name in ["", "svc.v1.Runtime", "svc.v1.Inference"]}
    try:
        check(service="svc.v1.Nobody")
    except grpc.RpcError as error:
        seen["check_unknown"] = error.code().name
    watch = stub(channel, "grpc.health.v1.Health", "Watch")
    seen["watch"] = {}
    for name in ["", "svc.v1.Nobody"]:
        call = watch(service=name)
        seen["watch"][name] = next(call).status
        call.cancel()
    listed = stub(channel, "grpc.health.v1.Health", "List")().statuses
    seen["list"] = {name: status.status for name, status in listed.items()}

    get_health = stub(channel, "svc.v1.Runtime", "GetHealth")
    seen["health"] = record(get_health())
    updates = stub(channel, "svc.v1.Runtime", "WatchHealth")()
    first = next(updates)
    second = next(updates)
    updates.cancel()
    seen["updates"] = [first.sequence, second.sequence]
    seen["first_update"] = record(first.health)
    seen["models"] = record(stub(channel, "svc.v1.Runtime", "ListModels")())["models"]
    seen["providers"] = record(stub(channel, "svc.v1.Runtime", "ListProviders")())["providers"]

    generate = stub(channel, "svc.v1.Inference", "Generate")
    messages = [{"role": "user", "content": "Tell me about llamas, please."}]
    endless = {"messages": messages, "sampling": {"logit_bias": [{"token": 100, "bias": 100}]}}
    events = list(generate(messages=messages, max_tokens=8, sampling={"seed": 7, "temperature": 1}))
    seen["events"] = [event.WhichOneof("event") for event in events]
    seen["text"] = "".join(event.text.text for event in events)
    seen["start"], seen["finish"] = record(events[1].start), record(events[-1].finish)
    seen["refused"] = refused(generate(messages=messages, model="nobody"))
    seen["invalid"] = refused(generate(messages=[{"role": "nobody", "content": "x"}]))

    embed = stub(channel, "svc.v1.Inference", "Embed")
    embedded = embed(model=embedding_model, input=[{"text": "hello world"}, {"tokens": {"ids": [101, 7592, 2088, 102]}}])
    seen["embedded"] = record(embedded)
    try:
        embed(input=[{"text": "x"}])
    except grpc.RpcError as error:
        seen["embed_refused"] = refusal(error)

    def idle():
        deadline = time.monotonic() + WAIT
        while time.monotonic() < deadline:
            health = get_health()
            if all(model.active == 0 and model.waiting == 0 for model in health.models) and health.queue.active == 0:
                return True
            time.sleep(0.05)
        return False

    seen["deadline"] = refused(generate(timeout=0.5, **endless))["status"]
    seen["idle_after_deadline"] = idle()
    call = generate(**endless)
    pieces = 0
    for event in call:
        pieces += event.WhichOneof("event") == "text"
        if pieces == 3:
            break
    seen["active_before_cancel"] = get_health().queue.active
    call.cancel()
    seen["idle_after_cancel"] = idle()
    channel.close()
    json.dump(seen, sys.stdout)


main(sys.argv[1], sys.argv[2])
