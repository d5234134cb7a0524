"""The clients of the app."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from adamw_app.task import fit, model, rows, scores

app = ClientApp()


def loaded(message):
    net = model()
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    return net


@app.train()
def train(message: Message, context: Context):
    i, config = context.node_config["partition-id"], context.run_config
    net, (data, _) = loaded(message), rows(i)
    seed = 1000 * message.content["config"]["server-round"] + i
    found = fit(net, data, config["epochs"], config["batch"], config["lr"], seed)
    content = {
        "arrays": ArrayRecord(net.state_dict()),
        "metrics": MetricRecord({**found, "num-examples": len(data)}),
    }
    return Message(RecordDict(content), reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context):
    _, data = rows(context.node_config["partition-id"])
    metrics = {**scores(loaded(message), data), "num-examples": len(data)}
    return Message(RecordDict({"metrics": MetricRecord(metrics)}), reply_to=message)
