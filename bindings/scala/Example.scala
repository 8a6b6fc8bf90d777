import org.gluino.Tensor
import org.gluino.scala.Model

/** Runs an exported network: Example net-symbol.json */
object Example {
  def main(arguments: Array[String]): Unit = Model.using(arguments(0)) { net =>
    val shape = net.inputs.head.shape.get.map(_.getOrElse(2L)) // free extents: two
    val y = net(Tensor.of(Array.fill(shape.product.toInt)(0.5f), shape: _*))
    println(s"${net.outputs.head.name} $y: ${y.floats.take(5).mkString(" ")}")
  }
}
